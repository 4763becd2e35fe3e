//! What a client holds open: versions of values to be read on, and values that come in pieces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{Held, Staged};

/// Cursors and staged values, by number.
#[derive(Default)]
pub(super) struct Handles {
    open: HashMap<u64, Handle>,
    last: u64,
}

struct Handle {
    used: Instant,
    what: HandleKind,
}

enum HandleKind {
    Cursor(Arc<Held>),
    Staging(Arc<Staging>),
}

/// A value that comes in pieces.
pub(super) struct Staging {
    pub(super) staged: Staged,
    /// What is there, as ranges that do not touch; while pieces are in flight others hold clones.
    covered: std::sync::Mutex<Vec<(u64, u64)>>,
}

impl Staging {
    pub(super) fn new(staged: Staged) -> Self {
        Staging { staged, covered: Default::default() }
    }

    /// A piece is there.
    pub(super) fn cover(&self, offset: u64, length: u64) {
        let mut covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut from, mut to) = (offset, offset + length);
        covered.retain(|(begin, end)| {
            let touches = *begin <= to && from <= *end;
            if touches {
                (from, to) = (from.min(*begin), to.max(*end));
            }
            !touches
        });
        covered.push((from, to));
    }

    /// Whether it is in so many parts that finding the place of another takes long.
    pub(super) fn is_scattered(&self) -> bool {
        let covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        covered.len() > MAX_PARTS
    }

    /// Whether all of it is there.
    pub(super) fn is_complete(&self) -> bool {
        let covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = self.staged.room().length();
        length == 0 || *covered == [(0, length)]
    }
}

impl Handles {
    /// `None`: there are too many.
    pub(super) fn keep(&mut self, held: Arc<Held>, now: Instant) -> Option<u64> {
        self.insert(HandleKind::Cursor(held), now)
    }

    pub(super) fn stage(&mut self, staging: Staging, now: Instant) -> Option<u64> {
        self.insert(HandleKind::Staging(Arc::new(staging)), now)
    }

    fn insert(&mut self, what: HandleKind, now: Instant) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, Handle { used: now, what });
        Some(self.last)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX
    }

    pub(super) fn cursor(&mut self, handle: u64, now: Instant) -> Option<Arc<Held>> {
        let handle = self.open.get_mut(&handle)?;
        handle.used = now;
        match &handle.what {
            HandleKind::Cursor(held) => Some(held.clone()),
            HandleKind::Staging(_) => None,
        }
    }

    pub(super) fn staging(&mut self, handle: u64, now: Instant) -> Option<Arc<Staging>> {
        let handle = self.open.get_mut(&handle)?;
        handle.used = now;
        match &handle.what {
            HandleKind::Staging(staging) => Some(staging.clone()),
            HandleKind::Cursor(_) => None,
        }
    }

    /// Takes a staged value out, if all of it is there and no piece is in flight; `Err`: not yet.
    pub(super) fn take_complete(&mut self, handle: u64) -> Option<Result<Staged, ()>> {
        let open = self.open.remove(&handle)?;
        let Handle { used, what: HandleKind::Staging(staging) } = open else {
            self.open.insert(handle, open);
            return None;
        };
        let is_complete = staging.is_complete();
        match Arc::try_unwrap(staging) {
            Ok(staging) if is_complete => Some(Ok(staging.staged)),
            Ok(staging) => self.put_back(handle, used, Arc::new(staging)),
            Err(staging) => self.put_back(handle, used, staging),
        }
    }

    fn put_back(
        &mut self,
        handle: u64,
        used: Instant,
        staging: Arc<Staging>,
    ) -> Option<Result<Staged, ()>> {
        self.open.insert(handle, Handle { used, what: HandleKind::Staging(staging) });
        Some(Err(()))
    }

    pub(super) fn close(&mut self, handle: u64) -> bool {
        self.open.remove(&handle).is_some()
    }

    /// Closes those unused for so long; returns how many.
    pub(super) fn close_idle(&mut self, now: Instant, idle: Duration) -> usize {
        let before = self.open.len();
        self.open.retain(|_, handle| now.saturating_duration_since(handle.used) < idle);
        before - self.open.len()
    }
}

/// Parts of a value that do not touch each other: pieces that come out of order.
const MAX_PARTS: usize = 4096;
/// Each pins memory, so a client has few.
const MAX: usize = 256;
