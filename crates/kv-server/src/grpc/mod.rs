//! The store over gRPC: the published service, for clients in any language.
//!
//! Connections come from the listener ([`Grpc::connection_handler`]), each is a task (`connection`), and each call passes
//! the dispatcher (`dispatcher`), which chooses the service and limits the calls in flight. The calls are implemented in
//! `read`, `write` and `query`, which see messages, the caller and the engine, but no network; all refusals are in
//! `status`. The caller is authenticated once per call (`authenticated_caller`). Values are copied here, chunk by chunk: links avoid
//! that.
//!
//! A stalled client does not hold memory for long: a request has a minute to arrive, each chunk of a stream
//! another minute, and a connection is closed if an answer is not read for that long (`calls`, `response_body`).

mod authenticated_caller;
mod calls;
mod connection;
mod counts;
mod dispatcher;
mod permits;
mod query;
mod read;
mod request_body;
mod response_body;
mod retryable_write;
mod service;
mod status;
mod write;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use kv_proto::v1::Transport;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::engine::Engine;
use crate::engine::session::Sessions;
use access::Phase;
use access::tls::Tls;
use calls::Calls;
pub use counts::GrpcCounts;
use dispatcher::Dispatcher;
use service::Service;

/// Information about this server, for callers.
#[derive(Clone)]
pub struct ServerInfo {
    /// The program's version.
    pub version: &'static str,
    /// Every transport, offered or not. Must not take long.
    pub transports: Arc<dyn Fn() -> Vec<Transport> + Send + Sync>,
}

/// The gRPC service, before it serves.
pub struct Grpc {
    sender: mpsc::Sender<TcpStream>,
    arrivals: mpsc::Receiver<TcpStream>,
    service: Service,
    counts: Arc<GrpcCounts>,
    tls: Option<Arc<Tls>>,
    idle_timeout: Duration,
}

impl Grpc {
    /// A service for this engine.
    pub fn new(engine: Arc<Engine>, info: ServerInfo) -> Self {
        let (sender, arrivals) = mpsc::channel(MAX_WAITING);
        let counts = Arc::new(GrpcCounts::default());
        let idle_timeout = engine.idle_timeout();
        let service = Service::new(engine, info, counts.clone());
        Grpc { sender, arrivals, service, counts, tls: None, idle_timeout }
    }

    /// Requires TLS.
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Grpc { tls, ..self }
    }

    /// Accepts connections of which nothing was read, on any thread, without blocking.
    pub fn connection_handler(&self) -> fabric::session::OtherHandler {
        let (sender, counts) = (self.sender.clone(), self.counts.clone());
        Arc::new(move |socket| {
            if sender.try_send(socket).is_err() {
                counts.open_connections().count_refused();
            }
        })
    }

    /// Its counters.
    pub fn counts(&self) -> &Arc<GrpcCounts> {
        &self.counts
    }

    /// The sessions of callers that may repeat writes.
    pub fn sessions(&self) -> &Arc<Sessions> {
        self.service.sessions()
    }

    /// Serves until `Phase::Stopping`. From `Phase::Draining` on it refuses new calls, reports that as its health, and lets
    /// calls in flight finish; `drained` is notified when they have.
    pub async fn serve(self, mut phase: watch::Receiver<Phase>, drained: oneshot::Sender<()>) {
        let (mut ended, mut drained) = (phase.clone(), Some(drained));
        let Grpc { sender, mut arrivals, service, counts, tls, idle_timeout } = self;
        // The other senders are dropped with the listener.
        drop(sender);
        let calls = Arc::new(Calls::default());
        let sessions = service.sessions().clone();
        let dispatcher =
            Dispatcher::new(service, counts.clone(), calls.clone(), tls, idle_timeout).await;
        let dispatcher = Arc::new(dispatcher);
        let mut cleanup =
            interval((idle_timeout / 4).clamp(Duration::from_millis(100), MAX_CLEANUP_INTERVAL));
        cleanup.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                arrived = arrivals.recv() => match arrived {
                    Some(socket) => connection::admit(socket, &dispatcher, counts.open_connections(), &phase),
                    None => break,
                },
                _ = cleanup.tick() => {
                    counts.add_stalled(calls.close_stalled(idle_timeout));
                    sessions.expire(std::time::Instant::now());
                }
                () = Phase::Draining.reached(&mut phase), if drained.is_some() => {
                    dispatcher.close().await;
                    let (dispatcher, drained) = (dispatcher.clone(), drained.take());
                    tokio::spawn(async move {
                        dispatcher.calls_ended().await;
                        drained.map(|drained| drained.send(()))
                    });
                }
                () = Phase::Stopping.reached(&mut ended) => break,
            }
        }
        dispatcher.close().await;
        drop(arrivals);
        counts.open_connections().all_closed().await;
    }
}

/// Accepted connections that wait for their task.
const MAX_WAITING: usize = 256;
/// The longest interval between checks for stalled readers.
const MAX_CLEANUP_INTERVAL: Duration = Duration::from_secs(15);
