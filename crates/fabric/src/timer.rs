//! A timer with a descriptor that can be polled with others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

pub(crate) struct Timer {
    timer: OwnedFd,
    set: Option<Instant>,
}

impl Timer {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Timer { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set: None })
    }

    /// Makes the descriptor readable from `at` on; never if `None`.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        if self.set == at {
            return;
        }
        self.set = at;
        // Zero would mean never.
        let left = at.map(|at| at.duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = left.and_then(|left| Timespec::try_from(left).ok()).unwrap_or(none);
        let time = Itimerspec { it_interval: none, it_value: left };
        // Cannot fail: the timer and the time are valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
