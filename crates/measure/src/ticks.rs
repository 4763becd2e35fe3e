//! The CPU's time stamp counter, which is cheap to read.
//!
//! A system clock that is not read from this very counter (HPET, the ACPI timer, an old Xen) takes microseconds, which is
//! more than what is measured. Which rate it has is found by the system clock over the whole measurement, so means are the
//! system clock's; quantiles rely on a steady rate, which x86 CPUs have since 2008.
//!
//! This file may use `unsafe`: an instruction that reads a register, and has no other effect.
#![allow(unsafe_code, reason = "reads the counter of the CPU")]

use std::time::Instant;

/// A count that grows steadily, at a rate of its own.
#[inline]
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every CPU of this architecture has the instruction, and Linux lets programs use it unless they ask not
    // to (`prctl(PR_SET_TSC)`), which nothing of ours does.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// A count that grows steadily, at a rate of its own.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    use std::sync::OnceLock;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The count beside the system clock, from some moment on.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    begun: Instant,
    first: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { begun: Instant::now(), first: ticks() }
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// How long a tick is, by all that passed until now.
    pub(crate) fn nanoseconds_per_tick(&self) -> f64 {
        let (took, ticked) = (self.begun.elapsed(), ticks().saturating_sub(self.first));
        took.as_nanos() as f64 / ticked.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_tick_is_shorter_than_a_microsecond_and_time_goes_on() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(5));
        let length = watch.nanoseconds_per_tick();
        assert!(length > 0.0 && length < 1000.0, "{length}");
        assert!(ticks() > watch.first);
    }
}
