//! What a lane sleeps on: completions, a timer, and the peer's life, in one descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::alarm::Alarm;

pub(super) struct Sleeper {
    all: OwnedFd,
    alarm: Alarm,
    /// How long the next nap is, where there is no descriptor of completions.
    nap: Option<Duration>,
}

impl Sleeper {
    /// Readable when one of these is. Without completions among them sleep is cut into naps.
    pub(super) fn new(
        completions: Option<BorrowedFd<'_>>,
        life: Option<BorrowedFd<'_>>,
    ) -> rustix::io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        for source in [completions, life, Some(alarm.as_fd())].into_iter().flatten() {
            epoll::add(&all, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Sleeper { all, alarm, nap: completions.is_none().then_some(SHORTEST) })
    }

    pub(super) fn naps(&self) -> bool {
        self.nap.is_some()
    }

    /// Something came: the next nap is short again.
    #[inline]
    pub(super) fn stir(&mut self) {
        if let Some(nap) = &mut self.nap {
            *nap = SHORTEST;
        }
    }

    /// Wakes at `due` at the latest; where there are naps at the end of the next one, which is longer than
    /// the last.
    pub(super) fn set(&mut self, due: Option<Instant>) {
        let end = self.nap.map(|nap| Instant::now() + nap);
        self.nap = self.nap.map(|nap| (2 * nap).min(LONGEST));
        self.alarm.set(due.into_iter().chain(end).min());
    }

    /// Wakes for nothing any more but what is in the lane already.
    pub(super) fn retire(&mut self, life: Option<BorrowedFd<'_>>) {
        self.nap = None;
        self.alarm.set(None);
        if let Some(life) = life {
            // It may have been the reason.
            let _ = epoll::delete(&self.all, life);
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}

const SHORTEST: Duration = Duration::from_micros(50);
/// What a message after a long silence may wait; an idle lane looks two hundred times a second.
const LONGEST: Duration = Duration::from_millis(5);
