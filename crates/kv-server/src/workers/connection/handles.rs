//! A client's open handles: read handles (pinned versions of values) and staged values.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{PinnedValue, ReservedValue};

/// Read handles and staged values, by number.
#[derive(Default)]
pub(super) struct Handles {
    open: HashMap<u64, Handle>,
    last: u64,
}

struct Handle {
    used: Instant,
    kind: HandleKind,
}

enum HandleKind {
    Read(Arc<PinnedValue>),
    StagedValue(Arc<StagedValue>),
}

/// A value that comes in chunks.
pub(super) struct StagedValue {
    pub(super) reserved: ReservedValue,
    /// The ranges received, disjoint and not adjacent. Shared with chunks in flight, which have clones of the `Arc`.
    covered: std::sync::Mutex<Vec<(u64, u64)>>,
}

impl StagedValue {
    pub(super) fn new(reserved: ReservedValue) -> Self {
        StagedValue { reserved, covered: Default::default() }
    }

    /// Records a received chunk.
    pub(super) fn cover(&self, offset: u64, length: u64) {
        let mut covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut from, mut to) = (offset, offset + length);
        covered.retain(|(start, end)| {
            let touches = *start <= to && from <= *end;
            if touches {
                (from, to) = (from.min(*start), to.max(*end));
            }
            !touches
        });
        covered.push((from, to));
    }

    /// Whether it has so many separate parts that adding one is slow.
    pub(super) fn is_scattered(&self) -> bool {
        let covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        covered.len() > MAX_PARTS
    }

    /// Whether all bytes were received.
    pub(super) fn is_complete(&self) -> bool {
        let covered = self.covered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = self.reserved.reservation().length();
        length == 0 || *covered == [(0, length)]
    }
}

impl Handles {
    /// Opens a read handle; `None`: too many handles.
    pub(super) fn open_read(&mut self, value: Arc<PinnedValue>, now: Instant) -> Option<u64> {
        self.insert(HandleKind::Read(value), now)
    }

    pub(super) fn stage(&mut self, staged: StagedValue, now: Instant) -> Option<u64> {
        self.insert(HandleKind::StagedValue(Arc::new(staged)), now)
    }

    fn insert(&mut self, kind: HandleKind, now: Instant) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, Handle { used: now, kind });
        Some(self.last)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_HANDLES
    }

    pub(super) fn read(&mut self, handle: u64, now: Instant) -> Option<Arc<PinnedValue>> {
        let handle = self.open.get_mut(&handle)?;
        handle.used = now;
        match &handle.kind {
            HandleKind::Read(value) => Some(value.clone()),
            HandleKind::StagedValue(_) => None,
        }
    }

    pub(super) fn staged(&mut self, handle: u64, now: Instant) -> Option<Arc<StagedValue>> {
        let handle = self.open.get_mut(&handle)?;
        handle.used = now;
        match &handle.kind {
            HandleKind::StagedValue(staged) => Some(staged.clone()),
            HandleKind::Read(_) => None,
        }
    }

    /// Removes a staged value, if it is complete and no chunk is in flight; `Err`: not yet.
    pub(super) fn take_complete(&mut self, handle: u64) -> Option<Result<ReservedValue, ()>> {
        let open = self.open.remove(&handle)?;
        let Handle { used, kind: HandleKind::StagedValue(staged) } = open else {
            self.open.insert(handle, open);
            return None;
        };
        let is_complete = staged.is_complete();
        match Arc::try_unwrap(staged) {
            Ok(staged) if is_complete => Some(Ok(staged.reserved)),
            Ok(staged) => self.put_back(handle, used, Arc::new(staged)),
            Err(staged) => self.put_back(handle, used, staged),
        }
    }

    fn put_back(
        &mut self,
        handle: u64,
        used: Instant,
        staged: Arc<StagedValue>,
    ) -> Option<Result<ReservedValue, ()>> {
        self.open.insert(handle, Handle { used, kind: HandleKind::StagedValue(staged) });
        Some(Err(()))
    }

    pub(super) fn close(&mut self, handle: u64) -> bool {
        self.open.remove(&handle).is_some()
    }

    /// Closes handles that were not used for `idle_timeout`; returns their number.
    pub(super) fn close_idle(&mut self, now: Instant, idle_timeout: Duration) -> usize {
        let before = self.open.len();
        self.open.retain(|_, handle| now.saturating_duration_since(handle.used) < idle_timeout);
        before - self.open.len()
    }
}

/// Separate parts of a staged value, of chunks that arrive out of order.
const MAX_PARTS: usize = 4096;
/// Each pins memory, so a client may have few.
const MAX_HANDLES: usize = 256;
