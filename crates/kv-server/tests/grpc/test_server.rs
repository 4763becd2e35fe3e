//! A store with a gRPC port, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Access;
use access::Phase;
use fabric::Pages;
use fabric::link::{self, Endpoint, Listener, Transport};
use kv_proto::v1::kv_client::KvClient;
use kv_proto::v1::{self, PutRequest};
use kv_server::grpc::{Grpc, GrpcCounts, ServerInfo};
use kv_server::{Engine, Settings};
use kv_store::{Usage, WhenFull};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint as Address};

pub(crate) struct TestServer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<GrpcCounts>,
    pub(crate) listener: Listener,
    pub(crate) life: watch::Sender<Phase>,
    /// Notified when calls in flight have ended.
    pub(crate) drained: Option<oneshot::Receiver<()>>,
    serving: JoinHandle<()>,
}

pub(crate) fn settings(memory: usize) -> Settings {
    Settings {
        memory,
        pages: Pages::Plain,
        when_full: WhenFull::Evict,
        max_value: None,
        max_in_flight: None,
        idle_timeout: Duration::from_secs(60),
        data_dir: None,
    }
}

impl TestServer {
    pub(crate) fn open(settings: &Settings) -> Self {
        TestServer::open_for(settings, Access::allow_all())
    }

    /// With access control.
    pub(crate) fn open_for(settings: &Settings, access: Arc<Access>) -> Self {
        let engine = Engine::with_access(settings, access).unwrap();
        let transport =
            v1::Transport { name: "tcp".into(), offered: true, reason: "always".into() };
        let transports = Arc::new(move || vec![transport.clone()]);
        let grpc = Grpc::new(engine.clone(), ServerInfo { version: "9.9", transports });
        let links = link::EndpointSettings {
            transports: vec![Transport::Tcp],
            ..link::EndpointSettings::default()
        };
        let endpoint = Endpoint::new(links).unwrap();
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let listener = endpoint.listen_shared(anywhere, Some(grpc.connection_handler())).unwrap();
        let (life, phase) = watch::channel(Phase::Serving);
        let (drained, is_drained) = oneshot::channel();
        TestServer {
            engine,
            address: listener.address(),
            counts: grpc.counts().clone(),
            listener,
            life,
            drained: Some(is_drained),
            serving: tokio::spawn(grpc.serve(phase, drained)),
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let address = Address::from_shared(format!("http://{}", self.address)).unwrap();
        address.connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> KvClient<Channel> {
        KvClient::new(self.channel().await)
    }

    /// Waits until a condition on the store's usage is met.
    pub(crate) async fn until(&self, what: &str, good: impl Fn(&Usage) -> bool) {
        let limit = Instant::now() + Duration::from_secs(30);
        while !good(&self.engine.index.usage()) {
            assert!(Instant::now() < limit, "{what}: {:?}", self.engine.index.usage());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops it, and waits for its end.
    pub(crate) async fn stop(self) {
        self.life.send(Phase::Stopping).unwrap();
        tokio::time::timeout(Duration::from_secs(30), self.serving).await.unwrap().unwrap();
    }
}

pub(crate) fn put(key: &str, value: impl Into<Vec<u8>>) -> PutRequest {
    PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: value.into().into(),
        ..PutRequest::default()
    }
}

/// Bytes that depend on their offset.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 3 % 251) as u8).collect()
}
