//! Where calls come in: which service is meant, how many there may be, and how long they may take to arrive.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use kv_proto::limits::MAX_MESSAGE_BYTES;
use kv_proto::v1::kv_server::KvServer;
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};

use super::admission::{Admission, Caller};
use super::calls::Calls;
use super::counts::Counts;
use super::permits::{Permit, Permits};
use super::request_body::Arriving;
use super::response_body::Paced;
use super::service::Service;
use super::status;
use super::unauthenticated::Unauthenticated;
use crate::engine::quota::Quota;
use access::tls::Tls;
use access::{Access, Pass, Refused};

pub(super) struct Gate {
    store: Answering,
    /// Health and reflection, by the names of their services.
    others: [(&'static str, Answering); 2],
    health: HealthReporter,
    permits: Arc<Permits>,
    unauthenticated: Arc<Unauthenticated>,
    quota: Arc<Quota>,
    calls: Arc<Calls>,
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
    idle: Duration,
    counts: Arc<Counts>,
    /// Nothing more is begun.
    closing: AtomicBool,
}

/// Answers the calls of one service.
type Answering = Box<dyn Fn(Request<Arriving>) -> Answer + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Gate {
    pub(super) async fn new(
        service: Service,
        counts: Arc<Counts>,
        calls: Arc<Calls>,
        tls: Option<Arc<Tls>>,
        idle: Duration,
    ) -> Self {
        let (access, quota) = (service.access().clone(), service.quota().clone());
        let store = KvServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (reporter, health) = health_reporter();
        reporter.set_service_status(kv_proto::SERVICE, ServingStatus::Serving).await;
        let health = health.max_decoding_message_size(MAX_QUESTION);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(kv_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("our own descriptors are good, as a test of kv-proto shows")
            .max_decoding_message_size(MAX_QUESTION);
        Gate {
            store: Box::new(move |request| store.clone().call(request)),
            others: [
                (HEALTH, Box::new(move |request| health.clone().call(request))),
                (REFLECTION, Box::new(move |request| reflection.clone().call(request))),
            ],
            health: reporter,
            permits: Arc::new(Permits::new(MAX_CALLS)),
            unauthenticated: Arc::default(),
            quota,
            calls,
            access,
            tls,
            idle,
            counts,
            closing: AtomicBool::new(false),
        }
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    pub(super) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    pub(super) fn unauthenticated(&self) -> &Arc<Unauthenticated> {
        &self.unauthenticated
    }

    /// Answers one call, whatever comes of it.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
        hang_up: Arc<Notify>,
    ) -> Response<Paced> {
        let (answer, permit) = match service_of(&request) == kv_proto::SERVICE {
            _ if caller.exposed => {
                self.access.refusals().count(Refused::NoCredentials);
                (status::wants_tls().into_http(), None)
            }
            true if self.closing.load(Relaxed) => self.refuse(status::shutting_down()),
            true => self.ask_store(request, caller).await,
            false => (self.ask_others(request).await, None),
        };
        let open = self.calls.open(hang_up, permit);
        answer.map(|body| Paced::new(body, open))
    }

    /// Lets in who may call before it takes a permit, and before anything of its request is waited for.
    async fn ask_store(
        &self,
        mut request: Request<Incoming>,
        caller: &Caller,
    ) -> (Response<Body>, Option<Permit>) {
        let pass = match caller.admit(&mut request, &self.access, self.tls()) {
            Ok(pass) => pass,
            Err(refused) => return self.refuse(status::denied(refused)),
        };
        if !caller.may_stay() {
            return self.refuse(status::too_many_calls());
        }
        let Some(permit) = self.permits.take(pass.identity(), self.idle).await else {
            return self.refuse(status::too_many_calls());
        };
        (self.call_store(request, caller, pass).await, Some(permit))
    }

    async fn call_store(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
        pass: Pass,
    ) -> Response<Body> {
        // It takes as long as its value, and looks after its pieces itself.
        let streams = request.uri().path().ends_with("/Write");
        let mut request = request.map(|body| Arriving::new(body, (!streams).then_some(self.idle)));
        request.extensions_mut().insert(Admission::new(pass, caller));
        if streams {
            return infallible((self.store)(request).await);
        }
        // A write that the disk has not done yet may be done all the same.
        match timeout(2 * self.idle, (self.store)(request)).await {
            Ok(answer) => infallible(answer),
            Err(_) => status::undecided(2 * self.idle.as_secs()).into_http(),
        }
    }

    fn refuse(&self, status: Status) -> (Response<Body>, Option<Permit>) {
        self.counts.failed(status.code());
        (status.into_http(), None)
    }

    async fn ask_others(&self, request: Request<Incoming>) -> Response<Body> {
        let name = service_of(&request);
        match self.others.iter().find(|(known, _)| *known == name) {
            Some((_, answering)) => {
                infallible(answering(request.map(|body| Arriving::new(body, None))).await)
            }
            None => status::no_service().into_http(),
        }
    }

    /// Begins nothing more, and tells those who watch our health.
    pub(super) async fn close(&self) {
        self.closing.store(true, Relaxed);
        for service in [kv_proto::SERVICE, ""] {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
    }
}

impl Gate {
    /// Waits until all calls of the store are over, answers and all.
    pub(super) async fn quiet(&self) {
        self.permits.empty().await;
    }
}

/// The name before the method's: `/package.Service/Method`.
fn service_of(request: &Request<Incoming>) -> &str {
    request.uri().path().split('/').nth(1).unwrap_or_default()
}

fn infallible<T>(result: Result<T, Infallible>) -> T {
    result.unwrap_or_else(|never| match never {})
}

const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
/// Requests that wait for their bytes and answers that wait for their readers: each may have a message.
const MAX_CALLS: usize = 512;
/// The name of a service or a symbol.
const MAX_QUESTION: usize = 16 << 10;
