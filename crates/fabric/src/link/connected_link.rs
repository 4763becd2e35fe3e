//! A link: its core, with descriptors and a clock.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

use super::core::{Core, MessageChannel};
use super::report::{LinkInfo, Report};
use crate::error::{Error, ErrorKind};
use crate::lane::{Caps, Lane, MappedInto};
use crate::op::{Completion, Failure, Op};
use crate::region::Region;
use crate::remote::{RemoteRegion, Window};
use crate::session::Session;
use crate::stats::Stats;
use crate::timer::Timer;

/// A connection to one peer that chooses its lanes, and switches when they die. It is used as a [`Lane`].
///
/// Differences: an operation fails only if it could never succeed, or if the peer is lost; in the latter case one with
/// an unknown outcome completes with [`Failure::Unknown`]. Messages and
/// immediate data arrive in the order in which they were posted; writes and reads are unordered, and a poll may return a receive before
/// operations that the peer has seen earlier. If a message
/// is longer than the next receive, that receive fails with `TooLong`, and the message waits for another. Atomic
/// operations are executed by the peer's CPU.
pub struct Link {
    core: Core,
    pub(in crate::link) info: LinkInfo,
    report: Arc<Report>,
    epoll: OwnedFd,
    alarm: Timer,
    started: Duration,
    /// The time of the last maintenance.
    last_maintenance: Duration,
    /// Whether the caller slept, or was about to, since the last maintenance.
    armed: bool,
    /// Polls since the clock was last read, all of which returned completions.
    busy_polls: u32,
    /// The generation of each rail that is in the epoll set, and whether the control connection is watched for
    /// writing.
    watched: Vec<u32>,
    watched_write: bool,
    /// Whether the link has ended and its descriptors are no longer watched.
    unwatched: bool,
    published: Duration,
}

/// Why no rail came up.
pub(in crate::link) enum NotUp {
    /// The peer is lost, the time is over, or no rail came up: another link may have one.
    Lost(String),
    /// An end allows no rail.
    Denied(String),
}

impl Link {
    pub(in crate::link) fn new(
        core: Core,
        info: LinkInfo,
        report: Arc<Report>,
    ) -> Result<Self, Error> {
        let system = |error| {
            let fix = "raise the limit of open files: `ulimit -n`";
            Error::new(ErrorKind::System, "create a link", error, fix)
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let alarm = Timer::new().map_err(system)?;
        let fds = core.descriptors().into_iter().flatten();
        for fd in fds.chain([alarm.as_fd()]) {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&epoll, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        Ok(Link {
            core,
            info,
            report,
            epoll,
            alarm,
            started: clock(),
            last_maintenance: Duration::ZERO,
            armed: true,
            busy_polls: 0,
            watched: Vec::new(),
            watched_write: false,
            unwatched: false,
            published: Duration::ZERO,
        })
    }

    /// The state of the link; may be stored and read by other threads while the link is in use.
    pub fn report(&self) -> &Arc<Report> {
        &self.report
    }

    /// The number of key revocations when the peer was authenticated
    /// ([`Session::revocations`](crate::session::Session::revocations)).
    pub fn revocations(&self) -> u64 {
        self.info.revocations
    }

    /// Whether a rail is up, so that operations are posted without waiting.
    pub fn is_up(&self) -> bool {
        !self.core.rails().active().is_empty()
    }

    /// Whether operations use shared memory: they complete before [`Lane::post`] returns, at the cost of a copy.
    pub fn uses_shared_memory(&self) -> bool {
        self.core.rails().uses_shared_memory()
    }

    /// The reason if the link has ended.
    pub fn ended(&self) -> Option<&str> {
        self.core.ended().map(|ended| ended.why.as_str())
    }

    /// Whether it ended because the peer's owner closed it, not because of an error at either end.
    pub fn is_closed_by_peer(&self) -> bool {
        self.core.ended().is_some_and(|ended| ended.orderly && ended.failure != Failure::Flushed)
    }

    /// Closes the link because of an error: to the peer it is not closed in an orderly way.
    pub fn fail(&mut self, why: &str) {
        self.core.fail_link(Failure::Flushed, why);
        self.close();
    }

    /// Polls until a rail is up, the timeout expires, or the link ends.
    pub(in crate::link) fn wait_until_up(&mut self, limit: Duration) -> Result<(), NotUp> {
        let deadline = crate::setup::deadline(limit);
        loop {
            let mut done = Vec::new();
            self.poll(&mut done);
            // Nothing was posted yet.
            debug_assert!(done.is_empty());
            if self.is_up() {
                return Ok(());
            }
            if let Some(why) = self.ended() {
                return Err(NotUp::Lost(why.to_owned()));
            }
            if self.core.rails().are_given_up() {
                let why = self.core.rail_problems();
                return Err(match self.core.rails().are_denied() {
                    true => NotUp::Denied(why),
                    false => NotUp::Lost(why),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NotUp::Lost(self.core.rail_problems()));
            }
            // `arm` may have brought a rail up, given it up or ended the link; the descriptor does not report that again.
            let waits = self.arm() && !self.is_up() && self.ended().is_none();
            if waits && !self.core.rails().are_given_up() {
                crate::lane::sleep(self.fd(), left);
            }
        }
    }

    fn now(&self) -> Duration {
        clock().saturating_sub(self.started)
    }

    /// Everything but posting and polling.
    fn maintain(&mut self, now: Duration) {
        self.last_maintenance = now;
        self.armed = false;
        self.core.maintain(now);
        if let Some(plan) = self.core.take_new_plan() {
            (self.info.ours, self.info.left_out) = (plan.ours, plan.left_out);
            self.info.theirs = plan.theirs.unwrap_or_else(|| self.info.theirs.clone());
        }
        if now >= self.published + PUBLISH_INTERVAL {
            self.publish(now);
        }
    }

    #[cold]
    fn publish(&mut self, now: Duration) {
        self.published = now;
        self.core.mark_published();
        self.report.publish(&self.core, &self.info);
    }

    /// Adds the descriptors of new lanes to the epoll set.
    fn update_epoll(&mut self) -> rustix::io::Result<()> {
        // A closed connection stays readable and would wake us forever.
        if self.core.ended().is_some() && !std::mem::replace(&mut self.unwatched, true) {
            for fd in self.core.descriptors().into_iter().flatten() {
                epoll::delete(&self.epoll, fd)?;
            }
        }
        if self.unwatched {
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
            self.maintain(self.now());
        }
        let count = self.core.poll(self.last_maintenance, done);
        // Completions are returned before maintenance.
        self.busy_polls = if count > 0 { self.busy_polls + 1 } else { MAX_BUSY_POLLS };
        if self.busy_polls >= MAX_BUSY_POLLS {
            self.busy_polls = 0;
            let now = self.now();
            // The clock is coarse: this is true once every few milliseconds.
            if now != self.last_maintenance {
                self.maintain(now);
            }
        }
        if self.core.has_new_events() {
            self.publish(self.last_maintenance);
        }
        count
    }

    #[inline]
    fn read_mapped(&mut self, window: &Window, offset: u64, into: MappedInto<'_>) -> bool {
        self.core.read_mapped(window, offset, into)
    }

    #[inline]
    fn write_mapped(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        self.core.write_mapped(window, offset, bytes, word)
    }

    fn arm(&mut self) -> bool {
        let now = self.now();
        self.maintain(now);
        self.armed = true;
        if !self.core.has_no_completions() || self.core.is_urgent() || self.update_epoll().is_err()
        {
            return false;
        }
        let due = self.core.next_due().filter(|_| !self.unwatched);
        // One granule later, since the core uses a coarse clock.
        let due = due.map(|due| Instant::now() + due.saturating_sub(now) + CLOCK_GRANULARITY);
        self.alarm.set(due);
        self.core.arm_lanes()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn close(&mut self) {
        self.core.close();
        self.report.publish(&self.core, &self.info);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        let started = Instant::now();
        let mut done = Vec::new();
        // Memory is released only when no lane uses it any more, which takes a short time.
        while self.core.rails().lane_count() > 0 && started.elapsed() < Duration::from_secs(2) {
            self.poll(&mut done);
            self.core.maintain(self.now());
        }
        self.report.publish(&self.core, &self.info);
    }
}

/// The coarse clock takes a few nanoseconds to read, and advances every few milliseconds.
#[inline]
fn clock() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// The clock is read after this many successive polls with completions.
const MAX_BUSY_POLLS: u32 = 8;
/// The interval at which the report is published; it is also published at every event.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
const CLOCK_GRANULARITY: Duration = Duration::from_millis(5);

impl MessageChannel for Session {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        Session::send(self, message).map_err(|lost| lost.to_string())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, String> {
        // Sends queued bytes; an error is reported by `receive`.
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
