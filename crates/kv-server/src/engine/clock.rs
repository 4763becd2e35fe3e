//! Notices that the wall clock was set, or that the machine slept. In memory values expire by a clock that is never set and
//! counts sleep; the disk stores times of the wall clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

/// The clocks at one moment, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockReading {
    wall: i64,
    /// Since the machine was started, sleep included.
    boot: i64,
    /// The same without sleep.
    awake: i64,
}

/// What happened between two readings, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockChange {
    /// By how much the wall clock was set; negative: back.
    stepped: i64,
    slept: i64,
}

/// What happened to the clocks since the start.
#[derive(Debug)]
pub struct ClockWatch {
    last: Mutex<ClockReading>,
    /// In milliseconds, forward or back.
    set: AtomicU64,
    slept: AtomicU64,
}

impl ClockWatch {
    pub(super) fn start() -> Self {
        ClockWatch {
            last: Mutex::new(ClockReading::now()),
            set: AtomicU64::new(0),
            slept: AtomicU64::new(0),
        }
    }

    /// By how many seconds the wall clock was set since the start, forward or back.
    pub fn set_seconds(&self) -> f64 {
        self.set.load(Relaxed) as f64 / 1e3
    }

    /// How long the machine has slept since the start, in seconds.
    pub fn slept_seconds(&self) -> f64 {
        self.slept.load(Relaxed) as f64 / 1e3
    }

    /// Reads the clocks, and logs what happened since the last time. Called about once a second.
    pub(super) fn look(&self, has_disk: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = ClockReading::now();
        let ClockChange { stepped, slept } = now.since(*last);
        *last = now;
        drop(last);
        if slept > 0 {
            self.slept.fetch_add(slept.unsigned_abs(), Relaxed);
            tracing::warn!(seconds = slept / 1000, "the machine slept; time to live went on");
        }
        if stepped != 0 {
            self.set.fetch_add(stepped.unsigned_abs(), Relaxed);
            if has_disk {
                let (seconds, direction, effect) = match stepped > 0 {
                    true => (stepped / 1000, "forward", "earlier"),
                    false => (-stepped / 1000, "back", "later"),
                };
                tracing::warn!(
                    "the clock was set {direction} by {seconds} s: values with a time to live that are loaded from the disk \
                     expire that much {effect}"
                );
            }
        }
    }
}

impl ClockReading {
    fn now() -> Self {
        let read = |id| {
            let time = clock_gettime(id);
            time.tv_sec * 1000 + time.tv_nsec / 1_000_000
        };
        ClockReading {
            wall: read(ClockId::Realtime),
            boot: read(ClockId::Boottime),
            awake: read(ClockId::Monotonic),
        }
    }

    /// The clocks are not read at the same instant, and leap seconds are steps of one: less than two seconds are neither a step
    /// nor sleep.
    fn since(&self, before: ClockReading) -> ClockChange {
        let passed = self.boot - before.boot;
        let large = |difference: i64| if difference.abs() >= 2000 { difference } else { 0 };
        ClockChange {
            stepped: large(self.wall - before.wall - passed),
            slept: large(passed - (self.awake - before.awake)).max(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_sleep_are_told_apart() {
        let before = ClockReading { wall: 1_000_000, boot: 5_000, awake: 4_000 };
        let after = |wall: i64, boot: i64, awake: i64| {
            let now = ClockReading {
                wall: before.wall + wall,
                boot: before.boot + boot,
                awake: before.awake + awake,
            };
            let ClockChange { stepped, slept } = now.since(before);
            (stepped, slept)
        };
        assert_eq!(after(1000, 1000, 1000), (0, 0), "a second passed");
        assert_eq!(after(1300, 1000, 1000), (0, 0), "adjusted");
        assert_eq!(after(61_000, 1000, 1000), (60_000, 0), "set forward");
        assert_eq!(after(-59_000, 1000, 1000), (-60_000, 0), "set back");
        assert_eq!(after(61_000, 61_000, 1000), (0, 60_000), "slept");
        assert_eq!(after(121_000, 61_000, 1000), (60_000, 60_000), "slept, and set forward");
    }
}
