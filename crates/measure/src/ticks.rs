//! The CPU's time stamp counter, which is cheap to read.
//!
//! A system clock that does not use this counter (HPET, the ACPI timer, an old Xen) takes microseconds to read,
//! which is more than what is measured. The counter's rate is determined by the system clock over the whole
//! measurement, so means are as accurate as the system clock; quantiles rely on a constant rate, which x86 CPUs
//! have since 2008.
//!
//! Unsafe here: an instruction that reads a register, and has no other effect.
#![allow(unsafe_code, reason = "reads the counter of the CPU")]

use std::time::Instant;

/// A monotonic counter with a constant rate.
#[inline]
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every CPU of this architecture has the instruction, and Linux allows it unless a program disables it
    // (`prctl(PR_SET_TSC)`), which this one does not.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// A monotonic counter with a constant rate.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    use std::sync::OnceLock;
    static STARTED: OnceLock<Instant> = OnceLock::new();
    u64::try_from(STARTED.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The counter and the system clock at the same start.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
    first: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { started: Instant::now(), first: ticks() }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The length of a tick, averaged since the start.
    pub(crate) fn nanoseconds_per_tick(&self) -> f64 {
        let (took, ticked) = (self.started.elapsed(), ticks().saturating_sub(self.first));
        took.as_nanos() as f64 / ticked.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_tick_is_shorter_than_a_microsecond_and_the_counter_advances() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(5));
        let length = watch.nanoseconds_per_tick();
        assert!(length > 0.0 && length < 1000.0, "{length}");
        assert!(ticks() > watch.first);
    }
}
