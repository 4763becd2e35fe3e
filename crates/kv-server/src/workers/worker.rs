//! A worker: one thread and its connections.
//!
//! A connection that had work recently is **hot**: it is polled in every round. One that had none for a while is armed, and
//! polled again when its descriptor is readable. Without hot connections, the worker sleeps.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Lane, busy_wait};
use rustix::event::epoll;

use crate::slab::Slab;
use crate::workers::connection::Connection;
use crate::workers::context::WorkerContext;
use crate::workers::pool::Shared;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    /// Its number in the pool.
    number: usize,
    context: WorkerContext,
    connections: Slab<WorkerConnection>,
    hot: Vec<u32>,
    epoll: rustix::fd::OwnedFd,
    /// Whether a connection had work since the worker last slept.
    had_work: bool,
    /// When connections last expired idle handles.
    last_expiry: Instant,
    /// When it last closed quiet connections, while the store is shutting down.
    last_close: Instant,
}

struct WorkerConnection {
    connection: Connection,
    /// Whether it had work since the last housekeeping.
    had_work: bool,
    is_hot: bool,
    /// For shutdown: whether it had work since the last check, and since when it had none.
    was_active: bool,
    quiet_since: Option<Instant>,
}

/// What a worker's loop remembers between rounds.
#[derive(Default)]
pub(super) struct Rounds {
    count: u32,
    /// Polls of connections since descriptors were last checked, and since the last housekeeping: polls rather than
    /// rounds, because with many hot connections a round takes long.
    since_wait: usize,
    since_housekeeping: usize,
    /// Since when there was no work. Links that only send heartbeats do not keep the worker awake.
    idle_since: Option<Instant>,
    done: Vec<fabric::Completion>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        context: WorkerContext,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakeup = epoll::EventData::new_u64(WAKEUP);
        epoll::add(&epoll, shared.wakeup_fd(number), wakeup, epoll::EventFlags::IN)?;
        Ok(Worker {
            shared,
            number,
            context,
            connections: Slab::default(),
            hot: Vec::new(),
            epoll,
            had_work: false,
            last_expiry: Instant::now(),
            last_close: Instant::now(),
        })
    }

    /// Runs until the pool stops and all connections have ended.
    pub(crate) fn run(mut self) {
        let mut rounds = Rounds::default();
        while !self.is_finished() {
            self.round(&mut rounds);
        }
        self.context.publish_tally();
    }

    /// Polls the hot connections once, and sleeps if there was no work for a while.
    #[inline]
    pub(super) fn round(&mut self, rounds: &mut Rounds) {
        rounds.count = rounds.count.wrapping_add(1);
        let polls = self.hot.len().max(1);
        rounds.since_wait += polls;
        rounds.since_housekeeping += polls;
        if rounds.since_wait >= self.wait_interval() || self.shared.is_woken(self.number) {
            rounds.since_wait = 0;
            // For connections that are not hot, and new ones.
            self.wait(Some(Duration::ZERO));
            self.close_quiet();
        }
        if self.handle_notifications() | self.step(&mut rounds.done) {
            rounds.idle_since = None;
            if rounds.since_housekeeping >= HOUSEKEEPING_INTERVAL {
                rounds.since_housekeeping = 0;
                self.housekeeping();
            }
            return;
        }
        // Reading the clock costs as much as a poll, so it is not read in every round.
        if self.had_work
            && polls < CLOCK_INTERVAL as usize
            && !rounds.count.is_multiple_of(CLOCK_INTERVAL)
        {
            std::hint::spin_loop();
            return;
        }
        let now = Instant::now();
        let waited = now.duration_since(*rounds.idle_since.get_or_insert(now));
        // A worker that waits for the disk leaves the CPU to the disk's threads.
        let expects_work = self.had_work && self.context.disk_requests == 0;
        if expects_work && self.shared.may_spin(self.number) && busy_wait(waited) {
            return;
        }
        (self.had_work, rounds.idle_since) = (false, None);
        self.housekeeping();
        if self.arm() {
            self.shared.stop_spinning(self.number);
            // Clients release in-place reads without a message.
            let expiry = (self.context.with_in_place_reads > 0).then_some(EXPIRY_INTERVAL);
            self.wait(if self.context.draining { Some(CLOSE_INTERVAL) } else { expiry });
            self.close_quiet();
        }
    }

    /// Polls of hot connections between checks of the descriptors, which are calls of the system.
    fn wait_interval(&self) -> usize {
        match self.hot.len() == self.connections.len() {
            // The descriptors of hot connections need no check, and the pool says when it has woken the worker.
            true => ALL_HOT_WAIT_INTERVAL,
            false => WAIT_INTERVAL,
        }
    }

    /// Passes notifications to their connections; returns whether there were any.
    #[inline]
    fn handle_notifications(&mut self) -> bool {
        let notifications = self.shared.take_notifications(self.number);
        let any = !notifications.is_empty();
        for (row, notification) in notifications {
            if let Some(entry) = self.connections.get_mut(row) {
                entry.connection.handle_notification(notification, &mut self.context);
                entry.had_work = true;
                self.mark_hot(row);
            }
        }
        any
    }

    /// Work that is not urgent: publishes counters, expires idle handles, arms connections without work.
    fn housekeeping(&mut self) {
        self.context.publish_tally();
        if let Some(reader) = &mut self.context.cached_reader {
            reader.release();
        }
        let now = Instant::now();
        if now.duration_since(self.last_expiry) >= EXPIRY_INTERVAL {
            self.last_expiry = now;
            for (_, entry) in self.connections.iter_mut() {
                entry.connection.expire(now, &mut self.context);
            }
        }
        // Connections without work since the last time are armed.
        let (connections, context) = (&mut self.connections, &mut self.context);
        self.hot.retain(|row| {
            let Some(entry) = connections.get_mut(*row) else { return false };
            let had_work = std::mem::take(&mut entry.had_work);
            entry.is_hot = had_work || !entry.connection.arm(context);
            entry.is_hot
        });
    }

    /// While the store drains: closes connections that have been quiet for a moment. Requests before
    /// that are refused.
    fn close_quiet(&mut self) {
        let now = Instant::now();
        if !self.context.draining || now.duration_since(self.last_close) < CLOSE_INTERVAL {
            return;
        }
        self.last_close = now;
        let mut closed = Vec::new();
        for (row, entry) in self.connections.iter_mut() {
            let close_after = entry.connection.close_after(&mut self.context);
            if std::mem::take(&mut entry.was_active) || close_after.is_none() {
                entry.quiet_since = None;
                continue;
            }
            let quiet = now.duration_since(*entry.quiet_since.get_or_insert(now));
            if close_after.is_some_and(|close_after| quiet >= close_after) {
                entry.connection.close("the store is shutting down");
                closed.push(row);
            }
        }
        closed.into_iter().for_each(|row| self.mark_hot(row));
    }

    fn is_finished(&self) -> bool {
        self.shared.is_stopping() && self.connections.len() == 0
    }

    /// Steps every hot connection once; returns whether any had work.
    pub(super) fn step(&mut self, done: &mut Vec<fabric::Completion>) -> bool {
        let mut busy = false;
        let mut at = 0;
        while at < self.hot.len() {
            let row = self.hot[at];
            let Some(entry) = self.connections.get_mut(row) else {
                self.hot.swap_remove(at);
                continue;
            };
            if entry.connection.step(&mut self.context, done) {
                (busy, entry.had_work, entry.was_active) = (true, true, true);
            }
            if entry.connection.is_finished() {
                self.hot.swap_remove(at);
                self.remove(row);
                continue;
            }
            at += 1;
        }
        self.had_work |= busy;
        busy
    }

    /// Arms all hot connections; returns whether none is hot any more.
    fn arm(&mut self) -> bool {
        let (connections, context) = (&mut self.connections, &mut self.context);
        self.hot.retain(|row| {
            let Some(entry) = connections.get_mut(*row) else { return false };
            entry.is_hot = !entry.connection.arm(context);
            entry.is_hot
        });
        self.hot.is_empty()
    }

    /// Waits for descriptors: connections with work become hot, new links become connections.
    pub(super) fn wait(&mut self, limit: Option<Duration>) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let limit = limit.and_then(|limit| limit.try_into().ok());
        let Ok(count) = epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) else { return };
        for event in &events[..count] {
            match event.data.u64() {
                WAKEUP => self.on_wakeup(),
                row => self.mark_hot(row as u32),
            }
        }
    }

    fn mark_hot(&mut self, row: u32) {
        if let Some(entry) = self.connections.get_mut(row).filter(|entry| !entry.is_hot) {
            entry.is_hot = true;
            self.hot.push(row);
        }
    }

    fn on_wakeup(&mut self) {
        for link in self.shared.take(self.number) {
            if let Err(error) = self.serve(link) {
                tracing::warn!(%error, "cannot serve a link");
                self.shared.connection_ended(self.number);
            }
        }
        self.context.draining = self.shared.is_draining();
        if self.shared.take_recheck(self.number) {
            let connections = self.connections.iter_mut();
            let closed = connections
                .filter_map(|(row, entry)| (!entry.connection.renew_permissions()).then_some(row));
            let closed: Vec<u32> = closed.collect();
            closed.into_iter().for_each(|row| self.mark_hot(row));
        }
        if self.shared.is_stopping() {
            for (_, entry) in self.connections.iter_mut() {
                entry.connection.close("the store is shutting down");
            }
            let rows: Vec<u32> = self.connections.iter_mut().map(|(row, _)| row).collect();
            rows.into_iter().for_each(|row| self.mark_hot(row));
        }
    }

    pub(super) fn serve(&mut self, link: Link) -> Result<(), fabric::Error> {
        let connection = Connection::new(link, &mut self.context)?;
        let entry = WorkerConnection {
            connection,
            had_work: true,
            is_hot: true,
            was_active: true,
            quiet_since: None,
        };
        let row = self.connections.insert(entry);
        let Some(entry) = self.connections.get_mut(row) else { return Ok(()) };
        entry.connection.row = row;
        let data = epoll::EventData::new_u64(row.into());
        // Otherwise the connection would only be polled while it is hot.
        if epoll::add(&self.epoll, entry.connection.link.fd().as_fd(), data, epoll::EventFlags::IN)
            .is_err()
        {
            entry.connection.close("cannot watch its descriptor");
        }
        self.hot.push(row);
        Ok(())
    }

    /// Removes a finished connection; its link is destroyed by the thread `close-links`, since that may take a moment.
    fn remove(&mut self, row: u32) {
        if let Some(entry) = self.connections.remove(row) {
            let _ = epoll::delete(&self.epoll, entry.connection.link.fd());
            self.shared.close_later(entry.connection.into_link(&mut self.context));
            self.shared.connection_ended(self.number);
        }
    }
}

/// The event data of the descriptor by which the pool wakes the worker.
const WAKEUP: u64 = u64::MAX;
/// Polls of hot connections between checks of the descriptors: some 10 µs, and some 80 µs.
const WAIT_INTERVAL: usize = 256;
const ALL_HOT_WAIT_INTERVAL: usize = 8 * WAIT_INTERVAL;
/// Polls between housekeeping.
const HOUSEKEEPING_INTERVAL: usize = 16 * WAIT_INTERVAL;
/// Rounds between readings of the clock.
const CLOCK_INTERVAL: u32 = 8;
/// How often idle handles are expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often quiet connections are closed while the store is shutting down.
const CLOSE_INTERVAL: Duration = Duration::from_millis(20);
