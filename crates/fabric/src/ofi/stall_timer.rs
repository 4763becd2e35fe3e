//! How long something has been in flight without a sign that it goes on.

use std::time::{Duration, Instant};

/// Given from time to time how far things are; says when that was the same for too long. Not at the first look:
/// it may be us who did not look, while everything else was held up with us.
#[derive(Debug)]
pub(super) struct Watch {
    limit: Duration,
    /// How far things were, and since when.
    seen: Option<(u64, Instant)>,
    /// When it was seen to have been too long.
    late: Option<Instant>,
}

impl Watch {
    pub(super) fn new(limit: Duration) -> Self {
        Watch { limit, seen: None, late: None }
    }

    /// `mark` is how far things are, `None` that nothing is in flight. Whether it has been too long.
    pub(super) fn is_over(&mut self, mark: Option<u64>, now: Instant) -> bool {
        match (mark, self.seen) {
            (Some(mark), Some((seen, since))) if mark == seen => {
                if now.saturating_duration_since(since) <= self.limit {
                    return false;
                }
                let late = *self.late.get_or_insert(now);
                now.saturating_duration_since(late) > self.grace()
            }
            (mark, _) => {
                (self.seen, self.late) = (mark.map(|mark| (mark, now)), None);
                false
            }
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        let tick = Duration::from_millis(1);
        match (self.late, self.seen) {
            (Some(late), _) => late.checked_add(self.grace() + tick),
            (None, Some((_, since))) => since.checked_add(self.limit + tick),
            (None, None) => None,
        }
    }

    /// How long things have to show that they go on after all.
    fn grace(&self) -> Duration {
        self.limit / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_still_is_over() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut watch = Watch::new(2 * second);
        assert!(!watch.is_over(Some(1), start) && !watch.is_over(Some(1), start + 2 * second));
        assert!(!watch.is_over(Some(2), start + 3 * second), "it went on");
        assert!(!watch.is_over(None, start + 4 * second) && watch.due().is_none());
        assert!(!watch.is_over(Some(2), start + 9 * second), "a new one");
        assert!(watch.due().is_some_and(|due| due > start + 11 * second));
        assert!(!watch.is_over(Some(2), start + 12 * second), "nobody had looked");
        assert!(watch.due().is_some_and(|due| due > start + 12 * second));
        assert!(watch.is_over(Some(2), start + 13 * second));
    }
}
