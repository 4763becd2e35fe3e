//! A link: the core with its descriptors and its clock.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

use super::core::{Connection, Core};
use super::report::{Report, Subject};
use crate::alarm::Alarm;
use crate::error::{Error, Kind};
use crate::lane::{Caps, Lane};
use crate::op::{Completion, Op};
use crate::region::{Region, Slice};
use crate::remote::{RemoteRegion, Window};
use crate::session::Session;
use crate::stats::Stats;

/// A connection to one peer that chooses its lanes, and changes them when they die. It is used as a [`Lane`].
///
/// What differs: an operation fails only if it could never succeed, or if the peer is lost; then one whose
/// outcome nobody can tell comes back as [`Failure::Unknown`](crate::Failure::Unknown). Messages and
/// immediate data arrive in the order in which they were posted; writes and reads have no order. A message that
/// is longer than the receive it meets gives that one back as too long, and waits for the next. Atomic
/// operations are done by the peer's CPU.
pub struct Link {
    core: Core,
    pub(in crate::link) subject: Subject,
    report: Arc<Report>,
    epoll: OwnedFd,
    alarm: Alarm,
    began: Duration,
    /// The clock's last value, by which the rest is looked after.
    tick: Duration,
    /// Whether somebody slept, or was about to.
    armed: bool,
    /// Polls since the clock was last looked at: all of them brought something.
    busy: u32,
    /// Which generation of each rail is in the descriptor, and whether the control connection is for
    /// writing.
    watched: Vec<u32>,
    watched_write: bool,
    /// Whether it is over, and nothing more is received.
    over: bool,
    published: Duration,
}

impl Link {
    pub(in crate::link) fn new(
        core: Core,
        subject: Subject,
        report: Arc<Report>,
    ) -> Result<Self, Error> {
        let system = |error| {
            let fix = "raise the limit of open files: `ulimit -n`";
            Error::new(Kind::System, "prepare a link", error, fix)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let alarm = Alarm::new().map_err(system)?;
        let fds = core.descriptors().into_iter().flatten();
        for fd in fds.chain([alarm.as_fd()]) {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        Ok(Link {
            core,
            subject,
            report,
            epoll,
            alarm,
            began: clock(),
            tick: Duration::ZERO,
            armed: true,
            busy: 0,
            watched: Vec::new(),
            watched_write: false,
            over: false,
            published: Duration::ZERO,
        })
    }

    /// What it is, and why: may be kept and read by others while the link works.
    pub fn report(&self) -> &Arc<Report> {
        &self.report
    }

    /// How often keys had been taken away when the peer was known by one, as of its session
    /// ([`Session::withdrawals`](crate::session::Session::withdrawals)).
    pub fn withdrawals(&self) -> u64 {
        self.subject.withdrawals
    }

    /// Whether a rail is up, so that operations go out at once.
    pub fn is_up(&self) -> bool {
        !self.core.rails().active().is_empty()
    }

    /// Whether operations go by shared memory: they are over when [`Lane::post`] returns, and cost a copy.
    pub fn is_near(&self) -> bool {
        self.core.rails().is_near()
    }

    /// Why it is over, if it is.
    pub fn ended(&self) -> Option<&str> {
        self.core.ended().map(|ended| ended.why.as_str())
    }

    /// Works until a rail is up, or the time is over, or the link.
    pub(in crate::link) fn come_up(&mut self, limit: Duration) -> Result<(), String> {
        let deadline = crate::half::deadline(limit);
        loop {
            let mut done = Vec::new();
            self.poll(&mut done);
            // Nobody has posted anything yet.
            debug_assert!(done.is_empty());
            if self.is_up() {
                return Ok(());
            }
            if let Some(why) = self.ended() {
                return Err(why.to_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.core.obstacles());
            }
            // What happened while it was armed is not reported again.
            if self.arm() && !self.is_up() && self.ended().is_none() {
                crate::lane::sleep(self.fd(), left);
            }
        }
    }

    fn now(&self) -> Duration {
        clock().saturating_sub(self.began)
    }

    /// Everything that is not urgent.
    fn attend(&mut self, now: Duration) {
        self.tick = now;
        self.armed = false;
        self.core.attend(now);
        if now >= self.published + PUBLISH {
            self.publish(now);
        }
    }

    #[cold]
    fn publish(&mut self, now: Duration) {
        self.published = now;
        self.core.take_news();
        self.report.publish(&self.core, &self.subject);
    }

    /// Sees to it that new lanes wake us.
    fn watch(&mut self) -> rustix::io::Result<()> {
        // The end of a connection would wake us for ever.
        if self.core.ended().is_some() && !std::mem::replace(&mut self.over, true) {
            for fd in self.core.descriptors().into_iter().flatten() {
                epoll::delete(&self.epoll, fd)?;
            }
        }
        if self.over {
            return Ok(());
        }
        let wants_to_write = self.core.control().wants_to_write();
        if wants_to_write != self.watched_write
            && let Some(fd) = self.core.control().fd()
        {
            self.watched_write = wants_to_write;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, wants_to_write);
            epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(0), flags)?;
        }
        self.watched.resize(self.core.rails().count(), 0);
        for (rail, generation, fd) in self.core.rails().descriptors() {
            let watched = &mut self.watched[usize::from(rail)];
            if std::mem::replace(watched, generation) != generation {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?;
            }
        }
        Ok(())
    }
}

impl Lane for Link {
    fn caps(&self) -> &Caps {
        self.core.caps()
    }

    fn stats(&self) -> &Arc<Stats> {
        self.core.stats()
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        self.core.grant(region)
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        self.core.import(remote)
    }

    #[inline]
    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        self.core.post(ops)
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        if self.armed || self.core.is_urgent() {
            self.attend(self.now());
        }
        let count = self.core.poll(self.tick, done);
        // What came need not wait for the rest to be looked after.
        self.busy = if count > 0 { self.busy + 1 } else { BUSY };
        if self.busy >= BUSY {
            self.busy = 0;
            let now = self.now();
            // The clock is a coarse one: this is once in some milliseconds.
            if now != self.tick {
                self.attend(now);
            }
        }
        if self.core.has_news() {
            self.publish(self.tick);
        }
        count
    }

    #[inline]
    fn peek(&mut self, window: &Window, offset: u64, into: &Slice) -> bool {
        self.core.peek(window, offset, into)
    }

    #[inline]
    fn poke(&mut self, window: &Window, offset: u64, bytes: &[u8], word: (u64, u64)) -> bool {
        self.core.poke(window, offset, bytes, word)
    }

    fn arm(&mut self) -> bool {
        let now = self.now();
        self.attend(now);
        self.armed = true;
        if !self.core.is_idle() || self.core.is_urgent() || self.watch().is_err() {
            return false;
        }
        let due = self.core.next_due().filter(|_| !self.over);
        // A tick later, since the clock by which it is looked at is a coarse one.
        let due = due.map(|due| Instant::now() + due.saturating_sub(now) + TICK);
        self.alarm.set(due);
        self.core.arm_lanes()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn close(&mut self) {
        self.core.close();
        self.report.publish(&self.core, &self.subject);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        let begun = Instant::now();
        let mut done = Vec::new();
        // Memory is given up only when no lane has it any more, which is soon.
        while self.core.rails().live_count() > 0 && begun.elapsed() < Duration::from_secs(2) {
            self.poll(&mut done);
            self.core.attend(self.now());
        }
        self.report.publish(&self.core, &self.subject);
    }
}

/// The coarse clock costs a few nanoseconds, and moves every few milliseconds.
#[inline]
fn clock() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// How many polls in a row may bring something before the clock is looked at all the same.
const BUSY: u32 = 8;
/// How often statistics are published, besides at every event.
const PUBLISH: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(5);

impl Connection for Session {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        Session::send(self, message).map_err(|lost| lost.to_string())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, String> {
        // What waits is sent when there is room; what is lost is reported by reading.
        let _ = self.flush();
        Session::receive(self).map_err(|lost| lost.to_string())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn wants_to_write(&self) -> bool {
        Session::wants_to_write(self)
    }
}
