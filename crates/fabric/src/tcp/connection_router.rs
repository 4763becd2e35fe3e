//! Connections that come by a listener which lanes share with others.

use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::MAX_STREAMS;
use super::hello::{HELLO, id};
use crate::error::{Error, Kind};

/// Brings connections from a listener to the halves that wait for them. Clones are the same.
///
/// Whoever keeps the listener reads the first [`HELLO`] bytes of a connection and not one more, sees by
/// [`MAGIC`](super::MAGIC) that they are a hello, and delivers both.
#[derive(Clone, Default)]
pub struct Callers {
    expected: Arc<Mutex<HashMap<u128, Waiting>>>,
}

/// What has come for one half.
struct Waiting {
    sockets: Vec<Delivered>,
    /// Rings when something comes.
    wakeup: Arc<OwnedFd>,
}

type Delivered = ([u8; HELLO], TcpStream);

impl Callers {
    /// Hands over a connection. `false`: no half expects it, or too many wait for that half already; the
    /// connection ends.
    pub fn deliver(&self, hello: [u8; HELLO], socket: TcpStream) -> bool {
        let mut expected = self.lock();
        let waiting = id(&hello).and_then(|id| expected.get_mut(&id));
        let room = waiting.filter(|waiting| waiting.sockets.len() < usize::from(MAX_STREAMS));
        let Some(waiting) = room else { return false };
        waiting.sockets.push((hello, socket));
        // Cannot fail short of 2^64 rings without a reader.
        let _ = rustix::io::write(&*waiting.wakeup, &1u64.to_ne_bytes());
        true
    }

    /// Takes in who calls for this id, from now on.
    pub(super) fn expect(&self, id: u128) -> Result<Expected, Error> {
        let wakeup =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
                let fix = "raise the limit of open files: `ulimit -n`";
                Error::new(Kind::System, "wait for callers of a TCP lane", error, fix)
            })?;
        let wakeup = Arc::new(wakeup);
        self.lock().insert(id, Waiting { sockets: Vec::new(), wakeup: wakeup.clone() });
        Ok(Expected { callers: self.clone(), id, wakeup })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Waiting>> {
        // Nothing under the lock can be left half done.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").field("expected", &self.lock().len()).finish()
    }
}

/// A half's place among the callers, until it is dropped.
pub(super) struct Expected {
    callers: Callers,
    id: u128,
    wakeup: Arc<OwnedFd>,
}

impl Expected {
    /// What has come. Its descriptor is readable when there is something.
    pub(super) fn take(&self) -> Vec<Delivered> {
        let mut expected = self.callers.lock();
        // It does not block; not having rung is fine.
        let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        let waiting = expected.get_mut(&self.id);
        waiting.map(|waiting| std::mem::take(&mut waiting.sockets)).unwrap_or_default()
    }
}

impl AsFd for Expected {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.callers.lock().remove(&self.id);
    }
}
