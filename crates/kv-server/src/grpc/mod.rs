//! The store over gRPC: the published service, for clients in any language.
//!
//! Connections come from whoever listens ([`Grpc::connection_handler`]), each is a task (`connection`), and each call passes
//! a gate (`gate`) that knows which service is meant and how much may be in flight. What the calls do is in
//! `read`, `write` and `query`, which see messages, who asks and the engine, and no network; `status` is the one
//! place that says no. Who asks is found out once for each call (`admission`). Values are copied here, piece by piece: who wants them without a copy uses a link.
//!
//! Nobody holds memory for long by standing still: a request has a minute to arrive, a stream of pieces a
//! minute for each, and an answer that is not read for so long costs its connection (`calls`, `response_body`).

mod admission;
mod attempt;
mod calls;
mod connection;
mod counts;
mod gate;
mod permits;
mod query;
mod read;
mod request_body;
mod response_body;
mod service;
mod status;
mod unauthenticated;
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
pub use counts::Counts;
use gate::Gate;
use service::Service;

/// What callers are told of this server.
#[derive(Clone)]
pub struct About {
    /// The program's version.
    pub version: &'static str,
    /// Every transport, offered or not. Must not take long.
    pub transports: Arc<dyn Fn() -> Vec<Transport> + Send + Sync>,
}

/// The service, before it serves.
pub struct Grpc {
    sender: mpsc::Sender<TcpStream>,
    arrivals: mpsc::Receiver<TcpStream>,
    service: Service,
    counts: Arc<Counts>,
    tls: Option<Arc<Tls>>,
    idle: Duration,
}

impl Grpc {
    /// The store of this engine.
    pub fn new(engine: Arc<Engine>, about: About) -> Self {
        let (sender, arrivals) = mpsc::channel(MAX_WAITING);
        let counts = Arc::new(Counts::default());
        let idle = engine.idle();
        let service = Service::new(engine, about, counts.clone());
        Grpc { sender, arrivals, service, counts, tls: None, idle }
    }

    /// The same over TLS, and not without.
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Grpc { tls, ..self }
    }

    /// Takes connections of which nothing was read, on any thread, and never waits.
    pub fn connection_handler(&self) -> fabric::session::OtherHandler {
        let (sender, counts) = (self.sender.clone(), self.counts.clone());
        Arc::new(move |socket| {
            if sender.try_send(socket).is_err() {
                counts.turn_away();
            }
        })
    }

    /// What was done.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Who may ask for writes again.
    pub fn sessions(&self) -> &Arc<Sessions> {
        self.service.sessions()
    }

    /// Serves until told to stop. After a drain it begins no call more, says so to who calls and who asks for
    /// its health, and lets calls in flight finish; `drained` hears when they have.
    pub async fn serve(self, mut life: watch::Receiver<Phase>, drained: oneshot::Sender<()>) {
        let (mut ended, mut drained) = (life.clone(), Some(drained));
        let Grpc { sender, mut arrivals, service, counts, tls, idle } = self;
        // Theirs ends with whoever listens.
        drop(sender);
        let calls = Arc::new(Calls::default());
        let sessions = service.sessions().clone();
        let gate = Gate::new(service, counts.clone(), calls.clone(), tls, idle).await;
        let gate = Arc::new(gate);
        let mut round = interval((idle / 4).clamp(Duration::from_millis(100), ROUND));
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                arrived = arrivals.recv() => match arrived {
                    Some(socket) => connection::admit(socket, &gate, &counts, &life),
                    None => break,
                },
                _ = round.tick() => {
                    counts.hung_up(calls.hang_up_on_the_idle(idle));
                    sessions.expire(std::time::Instant::now());
                }
                () = Phase::Draining.reached(&mut life), if drained.is_some() => {
                    gate.close().await;
                    let (gate, drained) = (gate.clone(), drained.take());
                    tokio::spawn(async move {
                        gate.quiet().await;
                        drained.map(|drained| drained.send(()))
                    });
                }
                () = Phase::Stopping.reached(&mut ended) => break,
            }
        }
        gate.close().await;
        drop(arrivals);
        counts.empty().await;
    }
}

/// Connections that were accepted and wait for their task.
const MAX_WAITING: usize = 256;
/// How often to look for who stands still.
const ROUND: Duration = Duration::from_secs(15);
