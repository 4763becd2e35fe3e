//! The entry of all calls: chooses the service, limits the number of calls, and the time for a request to arrive.

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

use super::authenticated_caller::{AuthenticatedCaller, ConnectionCredentials};
use super::calls::Calls;
use super::counts::GrpcCounts;
use super::permits::{Permit, Permits};
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::service::Service;
use super::status;
use crate::engine::quota::Quota;
use access::tls::Tls;
use access::{Access, Permissions, Refused};

pub(super) struct Dispatcher {
    store: Handler,
    /// Health and reflection, by service name.
    others: [(&'static str, Handler); 2],
    health: HealthReporter,
    permits: Arc<Permits>,
    /// Of the calls of these services that stay open: everybody may make them.
    other_permits: Arc<Permits>,
    quota: Arc<Quota>,
    calls: Arc<Calls>,
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
    idle_timeout: Duration,
    counts: Arc<GrpcCounts>,
    /// New calls are refused.
    draining: AtomicBool,
}

/// The handler of one service.
type Handler = Box<dyn Fn(Request<RequestBody>) -> Answer + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Dispatcher {
    pub(super) async fn new(
        service: Service,
        counts: Arc<GrpcCounts>,
        calls: Arc<Calls>,
        tls: Option<Arc<Tls>>,
        idle_timeout: Duration,
    ) -> Self {
        let (access, quota) = (service.access().clone(), service.quota().clone());
        let store = KvServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (reporter, health) = health_reporter();
        reporter.set_service_status(kv_proto::SERVICE, ServingStatus::Serving).await;
        let health = health.max_decoding_message_size(MAX_NAME_REQUEST_BYTES);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(kv_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are valid, as a test of kv-proto shows")
            .max_decoding_message_size(MAX_NAME_REQUEST_BYTES);
        Dispatcher {
            store: Box::new(move |request| store.clone().call(request)),
            others: [
                (HEALTH, Box::new(move |request| health.clone().call(request))),
                (REFLECTION, Box::new(move |request| reflection.clone().call(request))),
            ],
            health: reporter,
            permits: Arc::new(Permits::new(MAX_CALLS)),
            other_permits: Arc::new(Permits::new(MAX_OTHER_CALLS)),
            quota,
            calls,
            access,
            tls,
            idle_timeout,
            counts,
            draining: AtomicBool::new(false),
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

    /// Answers one call.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        credentials: &ConnectionCredentials,
        close: Arc<Notify>,
    ) -> Response<ResponseBody> {
        let (answer, permit) = match service_of(&request) == kv_proto::SERVICE {
            _ if credentials.lacks_tls => {
                self.access.refusals().count(Refused::NoCredentials);
                (status::tls_required().into_http(), None)
            }
            true if self.draining.load(Relaxed) => self.refuse(status::shutting_down()),
            true => self.call_store(request, credentials).await,
            false => self.call_other(request).await,
        };
        let open = self.calls.open(close, permit);
        answer.map(|body| ResponseBody::new(body, open))
    }

    /// Authenticates the caller before it takes a permit, and before its request is awaited.
    async fn call_store(
        &self,
        mut request: Request<Incoming>,
        credentials: &ConnectionCredentials,
    ) -> (Response<Body>, Option<Permit>) {
        let permissions = match credentials.admit(&mut request, &self.access, self.tls()) {
            Ok(permissions) => permissions,
            Err(refused) => return self.refuse(status::denied(refused)),
        };
        if let Err(why) = credentials.authenticated(&permissions) {
            return self.refuse(status::not_admitted(why));
        }
        let Some(permit) = self.permits.take(permissions.identity_name(), self.idle_timeout).await
        else {
            return self.refuse(status::too_many_calls());
        };
        (self.dispatch(request, credentials, permissions).await, Some(permit))
    }

    async fn dispatch(
        &self,
        request: Request<Incoming>,
        credentials: &ConnectionCredentials,
        permissions: Permissions,
    ) -> Response<Body> {
        // It may take as long as its value needs; the handler limits the time between chunks.
        let streams = request.uri().path().ends_with("/Write");
        let path = request.uri().path().to_owned();
        let mut request = request.map(|body| {
            RequestBody::new(body, (!streams).then_some(self.idle_timeout)).of_call(&path)
        });
        request.extensions_mut().insert(AuthenticatedCaller::new(permissions, credentials));
        if streams {
            return infallible((self.store)(request).await);
        }
        // A write that the disk has not finished may still take effect.
        match timeout(2 * self.idle_timeout, (self.store)(request)).await {
            Ok(answer) => infallible(answer),
            Err(_) => status::outcome_unknown(2 * self.idle_timeout.as_secs()).into_http(),
        }
    }

    fn refuse(&self, status: Status) -> (Response<Body>, Option<Permit>) {
        self.counts.failed(status.code());
        (status.into_http(), None)
    }

    /// Calls health or reflection. A check of health needs no permit, so that it is always answered; its request has a time limit.
    async fn call_other(&self, request: Request<Incoming>) -> (Response<Body>, Option<Permit>) {
        let name = service_of(&request);
        let Some((name, handler)) = self.others.iter().find(|(known, _)| *known == name) else {
            return (status::no_service().into_http(), None);
        };
        let is_check = request.uri().path().ends_with("/Check");
        let permit = match is_check {
            true => None,
            false => match self.other_permits.take(name, Duration::ZERO).await {
                Some(permit) => Some(permit),
                None => return self.refuse(status::too_many_calls()),
            },
        };
        let limit = is_check.then_some(self.idle_timeout);
        let answer = handler(request.map(|body| RequestBody::new(body, limit))).await;
        (infallible(answer), permit)
    }

    /// Refuses new calls, and reports that to the health service.
    pub(super) async fn close(&self) {
        self.draining.store(true, Relaxed);
        for service in [kv_proto::SERVICE, ""] {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
    }
}

impl Dispatcher {
    /// Waits until all calls of the store have ended, including their answers.
    pub(super) async fn calls_ended(&self) {
        self.permits.all_free().await;
    }
}

/// The service name of a path `/package.Service/Method`.
fn service_of(request: &Request<Incoming>) -> &str {
    request.uri().path().split('/').nth(1).unwrap_or_default()
}

fn infallible<T>(result: Result<T, Infallible>) -> T {
    result.unwrap_or_else(|never| match never {})
}

const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
/// Calls in flight: each may have a message in memory, of a request or of an answer.
const MAX_CALLS: usize = 512;
/// Open calls of health and reflection; each of the two has at most three quarters.
const MAX_OTHER_CALLS: usize = 512;
/// A request to health or reflection has the name of a service or a symbol.
const MAX_NAME_REQUEST_BYTES: usize = 16 << 10;
