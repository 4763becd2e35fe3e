//! How often an identity may ask: a bucket that fills at its rate and holds what comes in a second.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One identity's, whatever listeners it uses. It is one number, when the bucket will be full, so that many threads
/// can take from it without waiting for each other.
#[derive(Debug)]
pub(super) struct Bucket {
    full_at: AtomicU64,
    /// How long it takes for one request to be there again, in nanoseconds.
    step: u64,
}

impl Bucket {
    pub(super) fn new(rate: NonZeroU32) -> Self {
        Bucket { full_at: AtomicU64::new(0), step: (SECOND / u64::from(rate.get())).max(1) }
    }

    /// Takes one out, if there is one.
    pub(super) fn take(&self, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        let later = |full_at: u64| {
            let later = full_at.max(now) + self.step;
            (later - now <= SECOND).then_some(later)
        };
        self.full_at.fetch_update(Relaxed, Relaxed, later).is_ok()
    }
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_a_second_at_once_and_then_its_rate() {
        let bucket = Bucket::new(NonZeroU32::new(10).unwrap());
        let taken = |at: u64| {
            let now = Duration::from_millis(at);
            std::iter::repeat_with(|| bucket.take(now)).take(100).filter(|taken| *taken).count()
        };
        assert_eq!(taken(0), 10);
        assert_eq!(taken(99), 0);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(600), 5);
        assert_eq!(taken(60_000), 10, "it holds no more than a second's");
    }
}
