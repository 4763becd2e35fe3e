//! The descriptor that a lane sleeps on: completions, a timer, and the peer's process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::timer::Timer;

pub(super) struct WaitFd {
    all: OwnedFd,
    alarm: Timer,
    /// The length of the next pause, if there is no completion descriptor.
    pause: Option<Duration>,
}

impl WaitFd {
    /// Readable when one of these is. Without a completion descriptor a lane looks for completions at short intervals.
    pub(super) fn new(
        completions: Option<BorrowedFd<'_>>,
        peer_process: Option<BorrowedFd<'_>>,
    ) -> rustix::io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Timer::new()?;
        for source in [completions, peer_process, Some(alarm.as_fd())].into_iter().flatten() {
            epoll::add(&all, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(WaitFd { all, alarm, pause: completions.is_none().then_some(MIN_PAUSE) })
    }

    pub(super) fn wakes_by_timer(&self) -> bool {
        self.pause.is_some()
    }

    /// There was an event: the next pause is short again.
    #[inline]
    pub(super) fn reset_nap(&mut self) {
        if let Some(pause) = &mut self.pause {
            *pause = MIN_PAUSE;
        }
    }

    /// Wakes at `due` at the latest, or after the next pause, which is longer than
    /// the last.
    pub(super) fn set_timer(&mut self, due: Option<Instant>) {
        let end = self.pause.map(|pause| Instant::now() + pause);
        self.pause = self.pause.map(|pause| (2 * pause).min(MAX_PAUSE));
        self.alarm.set(due.into_iter().chain(end).min());
    }

    /// The lane has ended: no more wake-ups.
    pub(super) fn disable(&mut self, peer_process: Option<BorrowedFd<'_>>) {
        self.pause = None;
        self.alarm.set(None);
        if let Some(peer_process) = peer_process {
            // The end of the peer's process may be why the lane ended.
            let _ = epoll::delete(&self.all, peer_process);
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}

const MIN_PAUSE: Duration = Duration::from_micros(50);
/// The added latency of a message after a long pause; an idle lane wakes 200 times per second.
const MAX_PAUSE: Duration = Duration::from_millis(5);
