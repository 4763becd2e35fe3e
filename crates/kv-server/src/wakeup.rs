//! Wakes a thread that sleeps on a descriptor.

use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that a thread sleeps on, and by which other threads wake it.
#[derive(Clone)]
pub(crate) struct Wakeup(Arc<OwnedFd>);

impl Wakeup {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        Ok(Wakeup(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn wake(&self) {
        // It fails only if the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Resets it, so that the thread can sleep again.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Wakes each thread once. Queue everything first: waking costs more than queueing.
    pub(crate) fn wake_all(wakeups: impl IntoIterator<Item = Wakeup>) {
        let mut wakeups: Vec<Wakeup> = wakeups.into_iter().collect();
        wakeups.sort_by_key(|wakeup| Arc::as_ptr(&wakeup.0));
        wakeups.dedup_by_key(|wakeup| Arc::as_ptr(&wakeup.0));
        wakeups.iter().for_each(Wakeup::wake);
    }
}
