//! Delivers connections from a shared listener to lanes.

use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::MAX_STREAMS;
use super::stream_header::{STREAM_HEADER_BYTES, id};
use crate::error::{Error, Kind};

/// Delivers connections from a listener to the unconnected lanes that wait for them. Clones share their state.
///
/// The owner of the listener reads exactly the first [`STREAM_HEADER_BYTES`] bytes of a connection, checks by
/// [`MAGIC`](super::MAGIC) that they are a stream header, and delivers both.
#[derive(Clone, Default)]
pub struct ConnectionRouter {
    expected: Arc<Mutex<HashMap<u128, WaitingConnections>>>,
}

/// The connections for one lane.
struct WaitingConnections {
    sockets: Vec<DeliveredConnection>,
    /// An eventfd, signalled when a connection is delivered.
    wakeup: Arc<OwnedFd>,
}

type DeliveredConnection = ([u8; STREAM_HEADER_BYTES], TcpStream);

impl ConnectionRouter {
    /// Delivers a connection. `false`: no lane expects it, or too many wait for that lane already; the
    /// connection is closed.
    pub fn deliver(&self, header: [u8; STREAM_HEADER_BYTES], socket: TcpStream) -> bool {
        let mut expected = self.lock();
        let waiting = id(&header).and_then(|id| expected.get_mut(&id));
        let not_full = waiting.filter(|waiting| waiting.sockets.len() < usize::from(MAX_STREAMS));
        let Some(waiting) = not_full else { return false };
        waiting.sockets.push((header, socket));
        // Fails only if the eventfd's counter overflows.
        let _ = rustix::io::write(&*waiting.wakeup, &1u64.to_ne_bytes());
        true
    }

    /// Collects connections for this id from now on.
    pub(super) fn expect(&self, id: u128) -> Result<Expectation, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(Kind::System, "wait for connections of a TCP lane", error, fix)
            })?;
        let wakeup = Arc::new(wakeup);
        self.lock().insert(id, WaitingConnections { sockets: Vec::new(), wakeup: wakeup.clone() });
        Ok(Expectation { router: self.clone(), id, wakeup })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, WaitingConnections>> {
        // A panic under the lock leaves a valid state.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ConnectionRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionRouter").field("expected", &self.lock().len()).finish()
    }
}

/// An unconnected lane's entry in the router, until it is dropped.
pub(super) struct Expectation {
    router: ConnectionRouter,
    id: u128,
    wakeup: Arc<OwnedFd>,
}

impl Expectation {
    /// The delivered connections. The descriptor is readable when there are some.
    pub(super) fn take(&self) -> Vec<DeliveredConnection> {
        let mut expected = self.router.lock();
        // Resets the eventfd, without blocking.
        let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        let waiting = expected.get_mut(&self.id);
        waiting.map(|waiting| std::mem::take(&mut waiting.sockets)).unwrap_or_default()
    }
}

impl AsFd for Expectation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        self.router.lock().remove(&self.id);
    }
}
