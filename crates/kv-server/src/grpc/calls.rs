//! Answers that wait for their readers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::permits::Permit;
use crate::rows::Rows;

/// All answers in flight.
pub(super) struct Calls {
    began: Instant,
    open: Mutex<Rows<Arc<Call>>>,
}

struct Call {
    /// Since when its reader has not come back for more, in milliseconds; [`WANTED`]: the reader waits for us.
    waits: AtomicU64,
    /// Ends its connection.
    hang_up: Arc<Notify>,
}

/// One answer in flight, until it is dropped.
pub(super) struct Open {
    calls: Arc<Calls>,
    call: Arc<Call>,
    row: u32,
    /// Makes room for another call.
    _permit: Option<Permit>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { began: Instant::now(), open: Mutex::default() }
    }
}

impl Calls {
    pub(super) fn open(self: &Arc<Self>, hang_up: Arc<Notify>, permit: Option<Permit>) -> Open {
        let call = Arc::new(Call { waits: AtomicU64::new(WANTED), hang_up });
        let row = self.lock().insert(call.clone());
        Open { calls: self.clone(), call, row, _permit: permit }
    }

    /// Ends the connections of readers that have not come back for so long, and says how many answers waited.
    pub(super) fn hang_up_on_the_idle(&self, idle: Duration) -> usize {
        let now = self.now();
        let mut open = self.lock();
        let idle = |call: &Arc<Call>| {
            let since = call.waits.load(Relaxed);
            since != WANTED && now.saturating_sub(since) >= idle.as_millis() as u64
        };
        let gone = open.iter_mut().filter(|(_, call)| idle(call));
        gone.map(|(_, call)| call.hang_up.notify_one()).count()
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Rows<Arc<Call>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// The reader was given something, and must come back for more.
    pub(super) fn gave(&self) {
        self.call.waits.store(self.calls.now(), Relaxed);
    }

    /// The reader waits for us.
    pub(super) fn is_wanted(&self) {
        self.call.waits.store(WANTED, Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.calls.lock().remove(self.row);
    }
}

const WANTED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_given_something_and_stays_away_is_hung_up_on() {
        let calls = Arc::new(Calls::default());
        let open = || calls.open(Arc::new(Notify::new()), None);
        let (fresh, given, waiting) = (open(), open(), open());
        given.gave();
        waiting.gave();
        waiting.is_wanted();
        assert_eq!(calls.hang_up_on_the_idle(Duration::from_secs(60)), 0);
        assert_eq!(calls.hang_up_on_the_idle(Duration::ZERO), 1);
        drop((fresh, given, waiting));
        assert_eq!(calls.hang_up_on_the_idle(Duration::ZERO), 0);
    }
}
