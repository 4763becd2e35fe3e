//! The rate limit of an identity: a token bucket that holds one second's worth of requests.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One per identity, shared by all listeners. Its state is one number, the time when the bucket will be full, so that threads
/// take from it without a lock.
#[derive(Debug)]
pub(super) struct Bucket {
    full_at: AtomicU64,
    /// The time in which one request becomes available again.
    step_ns: u64,
}

impl Bucket {
    pub(super) fn new(rate: NonZeroU32) -> Self {
        Bucket { full_at: AtomicU64::new(0), step_ns: (SECOND_NS / u64::from(rate.get())).max(1) }
    }

    /// Takes one request out, if there is one.
    pub(super) fn take(&self, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        let later = |full_at: u64| {
            let later = full_at.max(now) + self.step_ns;
            (later - now <= SECOND_NS).then_some(later)
        };
        self.full_at.fetch_update(Relaxed, Relaxed, later).is_ok()
    }

    /// Whether it holds all requests, like a new one.
    pub(super) fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Relaxed) <= now.as_nanos() as u64
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_one_second_then_the_rate() {
        let bucket = Bucket::new(NonZeroU32::new(10).unwrap());
        let taken = |at: u64| {
            let now = Duration::from_millis(at);
            std::iter::repeat_with(|| bucket.take(now)).take(100).filter(|taken| *taken).count()
        };
        assert_eq!(taken(0), 10);
        assert_eq!(taken(99), 0);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(600), 5);
        assert_eq!(taken(60_000), 10, "it holds one second's worth");
        let is_full = |at| bucket.is_full(Duration::from_millis(at));
        assert!(!is_full(60_999) && is_full(61_000));
    }
}
