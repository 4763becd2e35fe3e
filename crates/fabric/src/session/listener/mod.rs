//! A listener for sessions.

mod accept_loop;
mod config;
mod counts;
mod half_open;
mod queue;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use self::accept_loop::AcceptLoop;
pub use self::config::{HelloCheck, InitiatorInfo, LaneHandler, ListenerConfig, OtherHandler};
pub use self::counts::ListenerCounts;
use self::queue::Queue;
use super::connection::Session;
use super::listener_handshake::HandshakeContext;
use crate::error::{Error, ErrorKind};
use crate::setup::deadline;

/// A listener, with its own thread that performs all handshakes concurrently. Dropping
/// it ends the thread; open sessions stay.
pub struct SessionListener {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// Shared by the listener and its thread.
struct Shared {
    queue: Queue,
    counts: ListenerCounts,
}

impl SessionListener {
    /// Listens on `address`; with port 0 the system chooses a port.
    pub fn open(address: SocketAddr, config: ListenerConfig) -> Result<SessionListener, Error> {
        let call = || format!("listen on {address}");
        let listener = listen(address).map_err(|error| {
            let (kind, fix) = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    (ErrorKind::Denied, "use a port above 1023, or grant CAP_NET_BIND_SERVICE")
                }
                _ => (
                    ErrorKind::System,
                    "use an address of this machine (see `ip address`) and a \
                    free port (see `ss -ltnp`)",
                ),
            };
            Error::new(kind, call(), error, fix)
        })?;
        let system = |error: std::io::Error| {
            let fix = "raise the limits on descriptors and threads (`ulimit -n`, `ulimit -u`)";
            Error::new(ErrorKind::System, call(), error, fix)
        };
        let address = listener.local_addr().map_err(system)?;
        let context = HandshakeContext::new(config)?;
        let queue = Queue::new().map_err(system)?;
        let shared =
            Arc::new(Shared { queue, counts: ListenerCounts::new(Arc::clone(&context.alive)) });
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = stop.map_err(|error| system(error.into()))?;
        let accept_loop = AcceptLoop::new(listener, context, Arc::clone(&shared), &stop);
        let accept_loop = accept_loop.map_err(system)?;
        let thread =
            Builder::new().name("wirelane-listener".to_owned()).spawn(|| accept_loop.run());
        Ok(SessionListener { address, shared, stop, thread: Some(thread.map_err(system)?) })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next session; waits up to `limit`.
    pub fn accept(&self, limit: Duration) -> Option<Session> {
        let deadline = deadline(limit);
        loop {
            if let Some(session) = self.shared.queue.pop() {
                return Some(session);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    /// Readable while [`SessionListener::accept`] would return a session without waiting.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.queue.as_fd()
    }

    /// Counters of accepted and refused connections.
    pub fn counts(&self) -> &ListenerCounts {
        &self.shared.counts
    }
}

impl Drop for SessionListener {
    fn drop(&mut self) {
        // Writing 1 to an eventfd at zero does not fail.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SessionListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.shared.counts;
        f.debug_struct("SessionListener")
            .field("address", &self.address)
            .field("counts", counts)
            .finish()
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Many may connect at the same time, as after the reboot of a switch; the library's default is 128.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

const BACKLOG: i32 = 4096;
