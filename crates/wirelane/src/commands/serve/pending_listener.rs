//! The listener of links, while it is being opened. A device that does not answer delays links, not the rest of the server.

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

pub(super) struct Opening {
    status: Arc<Status>,
    state: State,
}

enum State {
    /// On a thread of its own: it asks the devices.
    Waiting(JoinHandle<Result<Listener, Failure>>),
    Open(Arc<Listener>),
}

impl Opening {
    pub(super) fn start(server: &Server, address: SocketAddr) -> Self {
        let (endpoint, others) =
            (server.status.parts.endpoint.clone(), server.grpc.connection_handler());
        let opening = spawn_blocking(move || listener::open(&endpoint, address, others));
        Opening { status: server.status.clone(), state: State::Waiting(opening) }
    }

    /// Waits for it, but not for long. Until it is over nobody else asks a device: a thread that hangs in the dynamic
    /// linker keeps the process from starting others.
    pub(super) async fn wait(&mut self) -> Result<(), Failure> {
        let State::Waiting(opening) = &mut self.state else { return Ok(()) };
        match timeout(PATIENCE, opening).await {
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

    /// The listener, however long it takes; none: the server ends before.
    pub(super) async fn finish(
        mut self,
        life: &mut watch::Receiver<Phase>,
    ) -> Result<Option<Arc<Listener>>, Failure> {
        match &mut self.state {
            State::Open(listener) => Ok(Some(listener.clone())),
            State::Waiting(opening) => tokio::select! {
                opened = opening => self.opened(opened).map(Some),
                () = Phase::Draining.reached(life) => Ok(None),
            },
        }
    }

    fn opened(
        &mut self,
        opened: Result<Result<Listener, Failure>, JoinError>,
    ) -> Result<Arc<Listener>, Failure> {
        let listener = Arc::new(opened.expect("it does not panic")?);
        self.status.opened(listener.clone());
        self.state = State::Open(listener.clone());
        Ok(listener)
    }
}

/// How long to wait for devices before saying that links come later.
const PATIENCE: Duration = Duration::from_secs(2);
