//! The listener's thread: accepts connections, and performs all handshakes concurrently.

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
use super::half_open::{Action, HalfOpen, slow, too_many};
use crate::session::connection::{HandshakeResult, Session};
use crate::session::listener_handshake::{HandshakeContext, HandshakeRefusal};
use crate::session::refusal::Reason;
use crate::setup::deadline;

pub(super) struct AcceptLoop {
    epoll: OwnedFd,
    listener: TcpListener,
    /// When to accept again, after the process had no free descriptor.
    paused: Option<Instant>,
    context: Arc<HandshakeContext>,
    shared: Arc<Shared>,
    /// By number, so the oldest first; all have the same time limit, so it is also the first to expire.
    half_open: BTreeMap<u64, HalfOpen>,
    next: u64,
}

impl AcceptLoop {
    pub(super) fn new(
        listener: TcpListener,
        context: Arc<HandshakeContext>,
        shared: Arc<Shared>,
        stop: &OwnedFd,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let half_open = BTreeMap::new();
        Ok(AcceptLoop { epoll, listener, paused: None, context, shared, half_open, next: 0 })
    }

    /// Runs until the listener is dropped.
    pub(super) fn run(mut self) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
        loop {
            let count = epoll::wait(&self.epoll, &mut events[..], self.timeout().as_ref());
            let count = count.unwrap_or(0);
            let now = Instant::now();
            for event in &events[..count] {
                match event.data.u64() {
                    STOP => return,
                    LISTENER => self.accept_some(now),
                    number => {
                        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                        self.advance(number, { event.flags }.intersects(ends), now);
                    }
                }
            }
            self.give_up_expired(now);
            self.resume(now);
            self.shared.counts.half_open.store(self.half_open.len(), Relaxed);
        }
    }

    /// The timeout for waiting for events.
    fn timeout(&self) -> Option<Timespec> {
        let oldest = self.half_open.first_key_value().map(|(_, oldest)| oldest.deadline);
        let until = [oldest, self.paused].into_iter().flatten().min()?;
        Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()
    }

    /// Accepts a limited number of connections, so that those accepted are read in between.
    fn accept_some(&mut self, now: Instant) {
        for _ in 0..MAX_ACCEPTS {
            match self.listener.accept() {
                Ok((socket, address)) => self.add(socket, address),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The initiator closed the connection while it waited, or a signal arrived.
                Err(error) if is_connection_error(&error) => {}
                Err(_) => return self.pause(now),
            }
        }
    }

    /// There is no descriptor or memory for new connections. Stops accepting for a while: the listener stays
    /// readable and would wake us forever.
    fn pause(&mut self, now: Instant) {
        self.shared.counts.starved.fetch_add(1, Relaxed);
        self.paused = Some(now + ACCEPT_PAUSE);
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
        while self.half_open.len() >= self.context.config.max_half_open.max(1) {
            self.give_up_oldest(&too_many());
        }
        let deadline = deadline(self.context.config.handshake_timeout);
        self.half_open.insert(number, HalfOpen::new(socket, address, deadline));
    }

    fn give_up_expired(&mut self, now: Instant) {
        while self.half_open.first_key_value().is_some_and(|(_, oldest)| oldest.deadline <= now) {
            self.give_up_oldest(&slow());
        }
    }

    /// Gives up the oldest handshake. An initiator that sends without delay is never the oldest of many.
    fn give_up_oldest(&mut self, refusal: &HandshakeRefusal) {
        let Some((_, mut oldest)) = self.half_open.pop_first() else { return };
        if oldest.give_up(refusal) {
            self.shared.counts.refuse(refusal.reason);
        }
    }

    /// Continues a handshake after an event.
    fn advance(&mut self, number: u64, hung_up: bool, now: Instant) {
        // It may have been given up.
        let Some(half_open) = self.half_open.get_mut(&number) else { return };
        let counts = &self.shared.counts;
        match half_open.advance(&self.context, hung_up, now) {
            Action::Wait => {}
            Action::Refused(refusal) => {
                // Counted before the initiator receives it.
                counts.refuse_as(&refusal);
                self.advance(number, hung_up, now);
            }
            Action::Truncated => {
                counts.refuse(Reason::Truncated);
                self.half_open.remove(&number);
            }
            Action::Gone => drop(self.half_open.remove(&number)),
            Action::Open(opened) => self.open(number, *opened),
            Action::Lane(header) => self.hand_over_lane(number, header),
            Action::Other => self.hand_over_other(number),
        }
    }

    fn open(&mut self, number: u64, opened: HandshakeResult) {
        let Some(HalfOpen { socket, outgoing, .. }) = self.release(number) else { return };
        let session = Session::new(socket, opened, outgoing, &self.context.config.session);
        let Ok(mut session) = session else {
            return self.shared.counts.refuse(Reason::Truncated);
        };
        // Counted before the initiator receives our hello.
        self.shared.counts.accepted.fetch_add(1, Relaxed);
        // If the connection is closed, the owner of the session finds out.
        let _ = session.flush();
        self.shared.queue.push(session);
    }

    fn hand_over_lane(&mut self, number: u64, header: [u8; 21]) {
        let Some(HalfOpen { socket, .. }) = self.release(number) else { return };
        let on_lane = self.context.config.on_lane.as_ref();
        if on_lane.is_some_and(|on_lane| on_lane(header, socket)) {
            self.shared.counts.lanes.fetch_add(1, Relaxed);
        } else {
            self.shared.counts.refuse(Reason::UnexpectedStream);
        }
    }

    fn hand_over_other(&mut self, number: u64) {
        let Some(HalfOpen { socket, .. }) = self.release(number) else { return };
        let Some(on_other) = &self.context.config.on_other else {
            return self.shared.counts.refuse(Reason::UnknownProtocol);
        };
        self.shared.counts.others.fetch_add(1, Relaxed);
        on_other(socket);
    }

    /// Takes out a connection that is handed over.
    fn release(&mut self, number: u64) -> Option<HalfOpen> {
        let half_open = self.half_open.remove(&number)?;
        let _ = epoll::delete(&self.epoll, &half_open.socket);
        Some(half_open)
    }
}

/// Errors of one connection, not of this process: see "Error handling" in accept(2).
fn is_connection_error(error: &std::io::Error) -> bool {
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

/// The number of connections accepted before others are read.
const MAX_ACCEPTS: usize = 64;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
