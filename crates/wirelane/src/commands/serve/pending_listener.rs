//! The listener for links while it opens. A device that does not answer delays links, not the rest of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use fabric::link::Listener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::listener;
use super::server::Server;
use super::status::Status;
use crate::output::Failure;

pub(super) struct PendingListener {
    status: Arc<Status>,
    state: State,
}

enum State {
    /// On its own thread, since it queries the devices.
    Waiting(JoinHandle<Result<Listener, Failure>>),
    Open(Arc<Listener>),
}

impl PendingListener {
    pub(super) fn start(server: &Server, address: SocketAddr) -> Self {
        let (endpoint, others) =
            (server.status.parts.endpoint.clone(), server.grpc.connection_handler());
        let opening = spawn_blocking(move || listener::open(&endpoint, address, others));
        PendingListener { status: server.status.clone(), state: State::Waiting(opening) }
    }

    /// Waits for it, but only for a short time. Until it has finished nothing else queries a device: a thread that hangs in
    /// the dynamic linker prevents the process from starting other threads.
    pub(super) async fn wait(&mut self) -> Result<(), Failure> {
        let State::Waiting(opening) = &mut self.state else { return Ok(()) };
        match timeout(OPEN_TIMEOUT, opening).await {
            Ok(opened) => self.opened(opened).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// The listener, if it is open.
    pub(super) fn listener(&self) -> Option<&Listener> {
        match &self.state {
            State::Waiting(_) => None,
            State::Open(listener) => Some(listener),
        }
    }

    /// Waits for the listener without a limit; `None` if the server shuts down first.
    pub(super) async fn finish(
        mut self,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<Option<Arc<Listener>>, Failure> {
        match &mut self.state {
            State::Open(listener) => Ok(Some(listener.clone())),
            State::Waiting(opening) => tokio::select! {
                opened = opening => self.opened(opened).map(Some),
                () = Phase::Draining.reached(phase) => Ok(None),
            },
        }
    }

    fn opened(
        &mut self,
        opened: Result<Result<Listener, Failure>, JoinError>,
    ) -> Result<Arc<Listener>, Failure> {
        let listener = Arc::new(opened.expect("opening does not panic")?);
        self.status.set_listener(listener.clone());
        self.state = State::Open(listener.clone());
        Ok(listener)
    }
}

/// How long to wait for devices before reporting that links are not available yet.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
