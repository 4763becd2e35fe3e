//! Sessions that wait to be accepted, and a descriptor that is readable while there are any.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::session::connection::Session;

pub(super) struct Queue {
    sessions: Mutex<VecDeque<Session>>,
    /// Counts the sessions; changed only while they are locked.
    wakeup: OwnedFd,
}

impl Queue {
    pub(super) fn new() -> std::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Queue { sessions: Mutex::default(), wakeup: eventfd(0, flags)? })
    }

    pub(super) fn push(&self, session: Session) {
        let mut sessions = self.lock();
        sessions.push_back(session);
        // This fails only with 2^64 sessions.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    pub(super) fn pop(&self) -> Option<Session> {
        let mut sessions = self.lock();
        let session = sessions.pop_front()?;
        let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
        Some(session)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}
