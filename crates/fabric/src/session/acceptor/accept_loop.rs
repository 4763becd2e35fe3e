//! The listener's thread: takes callers in, and shakes hands with all of them at once.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::Shared;
use super::half_open::{HalfOpen, Next, slow, too_many};
use crate::half::deadline;
use crate::session::connection::{Opened, Session};
use crate::session::refusal::Reason;
use crate::session::responder::{Rejection, Rules};

pub(super) struct AcceptLoop {
    epoll: OwnedFd,
    listener: TcpListener,
    /// When to take callers in again, after there was no descriptor for one.
    paused: Option<Instant>,
    rules: Arc<Rules>,
    shared: Arc<Shared>,
    /// By number, so the oldest first; all have the same time, so it is also the first to be late.
    half_open: BTreeMap<u64, HalfOpen>,
    next: u64,
}

impl AcceptLoop {
    pub(super) fn new(
        listener: TcpListener,
        rules: Arc<Rules>,
        shared: Arc<Shared>,
        stop: &OwnedFd,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let half_open = BTreeMap::new();
        Ok(AcceptLoop { epoll, listener, paused: None, rules, shared, half_open, next: 0 })
    }

    /// Until the listener is dropped.
    pub(super) fn keep(mut self) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
        loop {
            let happened = epoll::wait(&self.epoll, &mut events[..], self.rest().as_ref());
            let happened = happened.unwrap_or(0);
            let now = Instant::now();
            for event in &events[..happened] {
                match event.data.u64() {
                    STOP => return,
                    LISTENER => self.take_in(now),
                    number => {
                        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                        self.go_on(number, { event.flags }.intersects(ends), now);
                    }
                }
            }
            self.give_up_late(now);
            self.resume(now);
            self.shared.counts.half_open.store(self.half_open.len(), Relaxed);
        }
    }

    /// Until when nothing is to do unless something happens.
    fn rest(&self) -> Option<Timespec> {
        let late = self.half_open.first_key_value().map(|(_, oldest)| oldest.deadline);
        let until = [late, self.paused].into_iter().flatten().min()?;
        Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()
    }

    /// Takes some callers in; the others still wait when those that are in were read.
    fn take_in(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok((socket, address)) => self.add(socket, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It hung up while it waited, or a signal came.
                Err(error) if is_its_own(&error) => {}
                Err(_) => return self.pause(now),
            }
        }
    }

    /// There is no descriptor or no memory for callers. They wait, and so do we: the listener stays
    /// readable and would wake us for ever.
    fn pause(&mut self, now: Instant) {
        self.shared.counts.starved.fetch_add(1, Relaxed);
        self.paused = Some(now + PAUSE);
        self.listen_for(EventFlags::empty());
    }

    fn resume(&mut self, now: Instant) {
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&self, flags: EventFlags) {
        // The listening socket was added to epoll in `open`; here only its flags change.
        let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags);
    }

    fn add(&mut self, socket: TcpStream, address: SocketAddr) {
        let number = self.next;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let watched = socket.set_nonblocking(true).and_then(|()| {
            Ok(epoll::add(&self.epoll, &socket, EventData::new_u64(number), flags)?)
        });
        if watched.is_err() {
            return;
        }
        self.next += 1;
        while self.half_open.len() >= self.rules.config.max_half_open.max(1) {
            self.give_up_oldest(&too_many());
        }
        let deadline = deadline(self.rules.config.handshake);
        self.half_open.insert(number, HalfOpen::new(socket, address, deadline));
    }

    fn give_up_late(&mut self, now: Instant) {
        while self.half_open.first_key_value().is_some_and(|(_, oldest)| oldest.deadline <= now) {
            self.give_up_oldest(&slow());
        }
    }

    /// A caller that speaks at once is never the oldest of many.
    fn give_up_oldest(&mut self, no: &Rejection) {
        let Some((_, mut oldest)) = self.half_open.pop_first() else { return };
        if oldest.give_up(no) {
            self.shared.counts.refuse(no.reason);
        }
    }

    /// Something happened there.
    fn go_on(&mut self, number: u64, hung_up: bool, now: Instant) {
        // It may have been given up since.
        let Some(half_open) = self.half_open.get_mut(&number) else { return };
        let counts = &self.shared.counts;
        match half_open.go_on(&self.rules, hung_up, now) {
            Next::Wait => {}
            Next::Refused(no) => {
                // Counted before it is received.
                counts.refuse_as(&no);
                self.go_on(number, hung_up, now);
            }
            Next::Truncated => {
                counts.refuse(Reason::Truncated);
                self.half_open.remove(&number);
            }
            Next::Gone => drop(self.half_open.remove(&number)),
            Next::Open(opened) => self.open(number, *opened),
            Next::Lane(greeting) => self.hand_over_lane(number, greeting),
            Next::Other => self.hand_over_other(number),
        }
    }

    fn open(&mut self, number: u64, opened: Opened) {
        let Some(HalfOpen { socket, outgoing, .. }) = self.release(number) else { return };
        let session = Session::new(socket, opened, outgoing, &self.rules.config.session);
        let Ok(mut session) = session else {
            return self.shared.counts.refuse(Reason::Truncated);
        };
        // Counted before the caller knows of it.
        self.shared.counts.accepted.fetch_add(1, Relaxed);
        // If the caller is gone already, whoever takes the session finds out.
        let _ = session.flush();
        self.shared.queue.push(session);
    }

    fn hand_over_lane(&mut self, number: u64, greeting: [u8; 21]) {
        let Some(HalfOpen { socket, .. }) = self.release(number) else { return };
        let lanes = self.rules.config.lanes.as_ref();
        if lanes.is_some_and(|lanes| lanes(greeting, socket)) {
            self.shared.counts.lanes.fetch_add(1, Relaxed);
        } else {
            self.shared.counts.refuse(Reason::StrayLane);
        }
    }

    fn hand_over_other(&mut self, number: u64) {
        let Some(HalfOpen { socket, .. }) = self.release(number) else { return };
        let Some(others) = &self.rules.config.others else {
            return self.shared.counts.refuse(Reason::NotOurs);
        };
        self.shared.counts.others.fetch_add(1, Relaxed);
        others(socket);
    }

    /// Takes one out that others shall have: they watch it themselves.
    fn release(&mut self, number: u64) -> Option<HalfOpen> {
        let half_open = self.half_open.remove(&number)?;
        let _ = epoll::delete(&self.epoll, &half_open.socket);
        Some(half_open)
    }
}

/// Errors of one connection, not of this process: see "Error handling" in accept(2).
fn is_its_own(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, HostUnreachable, Interrupted, NetworkDown};
    use ErrorKind::{NetworkUnreachable, PermissionDenied};
    matches!(
        error.kind(),
        ConnectionAborted
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | PermissionDenied
    )
}

/// How many callers are taken in before others are read.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
