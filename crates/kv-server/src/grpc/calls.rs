//! Calls with answers in flight, to find readers that have stalled.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::permits::Permit;
use crate::slab::Slab;

/// All calls with answers in flight.
pub(super) struct Calls {
    started: Instant,
    open: Mutex<Slab<Arc<Call>>>,
}

struct Call {
    /// Since when the reader has not requested more, in milliseconds; [`READER_WAITS`]: the reader waits for data.
    stalled_since: AtomicU64,
    /// Closes its connection.
    close: Arc<Notify>,
}

/// A call with an answer in flight, until it is dropped.
pub(super) struct OpenCall {
    calls: Arc<Calls>,
    call: Arc<Call>,
    row: u32,
    /// Released with the call.
    _permit: Option<Permit>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { started: Instant::now(), open: Mutex::default() }
    }
}

impl Calls {
    pub(super) fn open(self: &Arc<Self>, close: Arc<Notify>, permit: Option<Permit>) -> OpenCall {
        let call = Arc::new(Call { stalled_since: AtomicU64::new(READER_WAITS), close });
        let row = self.lock().insert(call.clone());
        OpenCall { calls: self.clone(), call, row, _permit: permit }
    }

    /// Closes the connections of readers that have stalled for `timeout`; returns the number of their calls.
    pub(super) fn close_stalled(&self, timeout: Duration) -> usize {
        let now = self.now();
        let mut open = self.lock();
        let is_stalled = |call: &Arc<Call>| {
            let since = call.stalled_since.load(Relaxed);
            since != READER_WAITS && now.saturating_sub(since) >= timeout.as_millis() as u64
        };
        let stalled = open.iter_mut().filter(|(_, call)| is_stalled(call));
        stalled.map(|(_, call)| call.close.notify_one()).count()
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Arc<Call>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenCall {
    /// Records that data was passed to the reader.
    pub(super) fn data_sent(&self) {
        self.call.stalled_since.store(self.calls.now(), Relaxed);
    }

    /// Records that the reader waits for data.
    pub(super) fn reader_waits(&self) {
        self.call.stalled_since.store(READER_WAITS, Relaxed);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.lock().remove(self.row);
    }
}

const READER_WAITS: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stalled_readers_are_closed() {
        let calls = Arc::new(Calls::default());
        let open = || calls.open(Arc::new(Notify::new()), None);
        let (fresh, given, waiting) = (open(), open(), open());
        given.data_sent();
        waiting.data_sent();
        waiting.reader_waits();
        assert_eq!(calls.close_stalled(Duration::from_secs(60)), 0);
        assert_eq!(calls.close_stalled(Duration::ZERO), 1);
        drop((fresh, given, waiting));
        assert_eq!(calls.close_stalled(Duration::ZERO), 0);
    }
}
