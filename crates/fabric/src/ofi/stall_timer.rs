//! Detects that something in flight makes no progress.

use std::time::{Duration, Instant};

/// Takes the progress periodically, and reports when it was the same for too long. Not at the first check after the timeout:
/// this thread itself may have been stalled, and the progress not processed.
#[derive(Debug)]
pub(super) struct StallTimer {
    limit: Duration,
    /// The last progress, and since when it is the same.
    seen: Option<(u64, Instant)>,
    /// When a check first found the timeout exceeded.
    stalled_at: Option<Instant>,
}

impl StallTimer {
    pub(super) fn new(limit: Duration) -> Self {
        StallTimer { limit, seen: None, stalled_at: None }
    }

    /// `progress` is `None` if nothing is in flight. Returns whether the timeout has expired.
    pub(super) fn is_stalled(&mut self, progress: Option<u64>, now: Instant) -> bool {
        match (progress, self.seen) {
            (Some(progress), Some((seen, since))) if progress == seen => {
                if now.saturating_duration_since(since) <= self.limit {
                    return false;
                }
                let stalled_at = *self.stalled_at.get_or_insert(now);
                now.saturating_duration_since(stalled_at) > self.recheck_delay()
            }
            (progress, _) => {
                (self.seen, self.stalled_at) = (progress.map(|progress| (progress, now)), None);
                false
            }
        }
    }

    /// When to check again.
    pub(super) fn due(&self) -> Option<Instant> {
        let tick = Duration::from_millis(1);
        match (self.stalled_at, self.seen) {
            (Some(stalled_at), _) => stalled_at.checked_add(self.recheck_delay() + tick),
            (None, Some((_, since))) => since.checked_add(self.limit + tick),
            (None, None) => None,
        }
    }

    /// The additional time for progress after the timeout was first exceeded.
    fn recheck_delay(&self) -> Duration {
        self.limit / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_progress_is_a_stall() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut timer = StallTimer::new(2 * second);
        assert!(
            !timer.is_stalled(Some(1), start) && !timer.is_stalled(Some(1), start + 2 * second)
        );
        assert!(!timer.is_stalled(Some(2), start + 3 * second), "progress");
        assert!(!timer.is_stalled(None, start + 4 * second) && timer.due().is_none());
        assert!(!timer.is_stalled(Some(2), start + 9 * second), "a new operation");
        assert!(timer.due().is_some_and(|due| due > start + 11 * second));
        assert!(
            !timer.is_stalled(Some(2), start + 12 * second),
            "the first check after the timeout"
        );
        assert!(timer.due().is_some_and(|due| due > start + 12 * second));
        assert!(timer.is_stalled(Some(2), start + 13 * second));
    }
}
