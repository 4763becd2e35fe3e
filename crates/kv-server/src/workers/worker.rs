//! A worker: one thread, the connections that were given to it, and when it may sleep.
//!
//! A connection that had work lately is **hot**: it is polled again and again. One that had none for a while is armed, and
//! polled again when its descriptor is readable. With none hot, the worker sleeps.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Lane, busy_wait};
use rustix::event::epoll;

use crate::rows::Rows;
use crate::workers::connection::Connection;
use crate::workers::context::WorkerContext;
use crate::workers::pool::Shared;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    /// Its number in the pool.
    number: usize,
    context: WorkerContext,
    connections: Rows<Served>,
    hot: Vec<u32>,
    epoll: rustix::fd::OwnedFd,
    /// Whether a connection had work since it last slept.
    works: bool,
    /// When connections last expired what is unused.
    expired: Instant,
    /// When it last looked which connections may be closed, once the store is shutting down.
    closing_checked: Instant,
}

struct Served {
    connection: Connection,
    /// Whether it had work since that was last asked.
    works: bool,
    is_hot: bool,
    /// While the store is shutting down: whether it had work since it was last looked at, and since when it had none.
    stirred: bool,
    quiet: Option<Instant>,
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
            connections: Rows::default(),
            hot: Vec::new(),
            epoll,
            works: false,
            expired: Instant::now(),
            closing_checked: Instant::now(),
        })
    }

    /// Works until the pool stops and all connections are gone.
    pub(crate) fn run(mut self) {
        let mut done = Vec::new();
        let mut rounds = 0_u32;
        // How many looks at connections there were since those that are not hot had their turn, and since the last pause:
        // with many hot connections a round takes long.
        let (mut glanced, mut paused) = (0, 0);
        // Links that only send heartbeats are no reason to stay awake.
        let mut busy = None::<Instant>;
        while !self.is_over() {
            rounds = rounds.wrapping_add(1);
            let looks = self.hot.len().max(1);
            (glanced, paused) = (glanced + looks, paused + looks);
            if glanced >= GLANCE {
                glanced = 0;
                // Those that are not hot have their turn too.
                self.wait(Some(Duration::ZERO));
                self.close();
            }
            if self.handle_notifications() | self.step(&mut done) {
                busy = None;
                if paused >= PAUSE {
                    paused = 0;
                    self.pause();
                }
                continue;
            }
            // The clock costs as much as a look, so it is asked now and then.
            if self.works && looks < LOOKS as usize && !rounds.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            let now = Instant::now();
            let waited = now.duration_since(*busy.get_or_insert(now));
            // A worker that waits for the disk leaves the CPU to the threads that write to it.
            let looks_out = self.works && self.context.disk_requests == 0;
            if looks_out && self.shared.may_spin(self.number) && busy_wait(waited) {
                continue;
            }
            (self.works, busy) = (false, None);
            self.pause();
            if self.rest() {
                self.shared.spins(self.number, false);
                // Clients give back what they read in place without a message.
                let expiry = (self.context.with_pinned_reads > 0).then_some(EXPIRY);
                self.wait(if self.context.closing { Some(CLOSING) } else { expiry });
                self.close();
            }
        }
        self.context.publish_tally();
    }

    /// Hands on what came back from other threads; returns whether anything did.
    #[inline]
    fn handle_notifications(&mut self) -> bool {
        let notifications = self.shared.take_notifications(self.number);
        let any = !notifications.is_empty();
        for (row, notification) in notifications {
            if let Some(served) = self.connections.get_mut(row) {
                served.connection.handle_notification(notification, &mut self.context);
                served.works = true;
                self.heat(row);
            }
        }
        any
    }

    /// What is not urgent.
    fn pause(&mut self) {
        self.context.publish_tally();
        let now = Instant::now();
        if now.duration_since(self.expired) >= EXPIRY {
            self.expired = now;
            for (_, served) in self.connections.iter_mut() {
                served.connection.expire(now, &mut self.context);
            }
        }
        // Connections that did nothing since the last time are left alone while others work.
        let (connections, context) = (&mut self.connections, &mut self.context);
        self.hot.retain(|row| {
            let Some(served) = connections.get_mut(*row) else { return false };
            let works = std::mem::take(&mut served.works);
            served.is_hot = works || !served.connection.rest(context);
            served.is_hot
        });
    }

    /// Once the store is shutting down: closes connections that have been quiet for a moment. A client that asks before
    /// that is answered that nothing was done.
    fn close(&mut self) {
        let now = Instant::now();
        if !self.context.closing || now.duration_since(self.closing_checked) < CLOSING {
            return;
        }
        self.closing_checked = now;
        let mut gone = Vec::new();
        for (row, served) in self.connections.iter_mut() {
            let patience = served.connection.patience(&mut self.context);
            if std::mem::take(&mut served.stirred) || patience.is_none() {
                served.quiet = None;
                continue;
            }
            let silence = now.duration_since(*served.quiet.get_or_insert(now));
            if patience.is_some_and(|patience| silence >= patience) {
                served.connection.dismiss("the store is shutting down");
                gone.push(row);
            }
        }
        gone.into_iter().for_each(|row| self.heat(row));
    }

    fn is_over(&self) -> bool {
        self.shared.is_stopping() && self.connections.len() == 0
    }

    /// Every hot connection once.
    fn step(&mut self, done: &mut Vec<fabric::Completion>) -> bool {
        let mut busy = false;
        let mut at = 0;
        while at < self.hot.len() {
            let row = self.hot[at];
            let Some(served) = self.connections.get_mut(row) else {
                self.hot.swap_remove(at);
                continue;
            };
            if served.connection.step(&mut self.context, done) {
                (busy, served.works, served.stirred) = (true, true, true);
            }
            if served.connection.is_gone() {
                self.hot.swap_remove(at);
                self.remove(row);
                continue;
            }
            at += 1;
        }
        self.works |= busy;
        busy
    }

    /// Arms all hot connections; `true` if none is hot any more.
    fn rest(&mut self) -> bool {
        let (connections, context) = (&mut self.connections, &mut self.context);
        self.hot.retain(|row| {
            let Some(served) = connections.get_mut(*row) else { return false };
            served.is_hot = !served.connection.rest(context);
            served.is_hot
        });
        self.hot.is_empty()
    }

    /// Waits for descriptors: connections that have work become hot, new links become connections.
    fn wait(&mut self, limit: Option<Duration>) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let limit = limit.and_then(|limit| limit.try_into().ok());
        let Ok(count) = epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) else { return };
        for event in &events[..count] {
            match event.data.u64() {
                WAKEUP => self.on_wakeup(),
                row => self.heat(row as u32),
            }
        }
    }

    fn heat(&mut self, row: u32) {
        if let Some(served) = self.connections.get_mut(row).filter(|served| !served.is_hot) {
            served.is_hot = true;
            self.hot.push(row);
        }
    }

    fn on_wakeup(&mut self) {
        for link in self.shared.take(self.number) {
            if let Err(error) = self.serve(link) {
                tracing::warn!(%error, "cannot serve a link");
                self.shared.left(self.number);
            }
        }
        self.context.closing = self.shared.is_closing();
        if self.shared.takes_review(self.number) {
            let connections = self.connections.iter_mut();
            let dismissed = connections
                .filter_map(|(row, served)| (!served.connection.renew_rights()).then_some(row));
            let dismissed: Vec<u32> = dismissed.collect();
            dismissed.into_iter().for_each(|row| self.heat(row));
        }
        if self.shared.is_stopping() {
            for (_, served) in self.connections.iter_mut() {
                served.connection.dismiss("the store is shutting down");
            }
            let rows: Vec<u32> = self.connections.iter_mut().map(|(row, _)| row).collect();
            rows.into_iter().for_each(|row| self.heat(row));
        }
    }

    fn serve(&mut self, link: Link) -> Result<(), fabric::Error> {
        let connection = Connection::new(link, &mut self.context)?;
        let served = Served { connection, works: true, is_hot: true, stirred: true, quiet: None };
        let row = self.connections.insert(served);
        let Some(served) = self.connections.get_mut(row) else { return Ok(()) };
        served.connection.row = row;
        let data = epoll::EventData::new_u64(row.into());
        // Without it the connection would be polled only while it is hot.
        if epoll::add(&self.epoll, served.connection.link.fd().as_fd(), data, epoll::EventFlags::IN)
            .is_err()
        {
            served.connection.dismiss("its descriptor cannot be watched");
        }
        self.hot.push(row);
        Ok(())
    }

    /// A connection is gone: its link is taken apart elsewhere, since that may take a moment.
    fn remove(&mut self, row: u32) {
        if let Some(served) = self.connections.remove(row) {
            let _ = epoll::delete(&self.epoll, served.connection.link.fd());
            self.shared.close_later(served.connection.into_link(&mut self.context));
            self.shared.left(self.number);
        }
    }
}

/// The descriptor by which the pool wakes the worker.
const WAKEUP: u64 = u64::MAX;
/// After how many looks at hot connections the others are looked at.
const GLANCE: usize = 256;
/// After how many looks those that had no work become cold.
const PAUSE: usize = 16 * GLANCE;
/// How many rounds pass between looks at the clock.
const LOOKS: u32 = 8;
/// How often connections expire what is unused.
const EXPIRY: Duration = Duration::from_secs(1);
/// How often connections are looked at once the store is shutting down.
const CLOSING: Duration = Duration::from_millis(20);
