//! The work of a lane while its endpoint is open: processes completions and the peer's frames, and replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_sys::Errno;

use super::config::Config;
use super::contexts::Contexts;
use super::cq::Event;
use super::endpoint::Endpoint;
use super::failure::{frame_failure, transfer_failure};
use super::fetches::Fetch;
use super::frame::{FRAGMENT_BYTES, Frame, HEADER_BYTES, Progress, decode_frame};
use super::granted::GrantedRegions;
use super::inbox::{FragmentLocation, Inbox, MessageFragment, TooLong, scatter};
use super::outgoing::ContextUse;
use super::sends::Sends;
use super::slots::Slots;
use super::stall_timer::StallTimer;
use crate::completion_sink::CompletionSink;
use crate::op::{Completion, Done, Failure};
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;
use crate::stats::Stats;

pub(super) struct OfiCore {
    pub(super) sends: Sends,
    pub(super) slots: Slots,
    pub(super) inbox: Inbox,
    pub(super) stats: Arc<Stats>,
    /// Completed, and not yet returned by `poll`.
    pub(super) ready: Vec<Completion>,
    /// The lane secret that the peer's frames must have.
    secret: u64,
    /// The regions that were granted to the peer.
    pub(super) granted: GrantedRegions,
    /// The number of received frames that occupy a buffer, and of these buffers that were freed again.
    arrived: u64,
    freed: u64,
    replies: VecDeque<PendingReply>,
    key_check: Option<KeyCheck>,
    transfer_timer: StallTimer,
    /// For the oldest message, and for the oldest request.
    peer_timers: [StallTimer; 2],
    timeout: Duration,
    events: Vec<Event>,
}

/// A reply to a request of the peer, with bytes of a region if it requested some.
struct PendingReply {
    frame: Frame,
    bytes: Option<Slice>,
}

/// A transfer was cancelled. The peer is queried whether the key is invalid, which distinguishes a refused key from a lost
/// connection.
struct KeyCheck {
    at: u32,
    key: u64,
    sent: bool,
    since: Instant,
}

/// Why the lane ends, and the local operation or the peer's message that caused it, if one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneEnd {
    pub(super) failure: Failure,
    pub(super) operation: Option<u32>,
    pub(super) message: Option<u64>,
}

impl From<Failure> for LaneEnd {
    fn from(failure: Failure) -> Self {
        LaneEnd { failure, operation: None, message: None }
    }
}

impl OfiCore {
    pub(super) fn new(
        secret: u64,
        sends: Sends,
        slots: Slots,
        inbox: Inbox,
        granted: GrantedRegions,
        config: &Config,
    ) -> Self {
        OfiCore {
            secret,
            sends,
            slots,
            inbox,
            stats: Arc::default(),
            ready: Vec::new(),
            granted,
            arrived: 0,
            freed: 0,
            replies: VecDeque::new(),
            key_check: None,
            transfer_timer: StallTimer::new(config.timeout),
            peer_timers: [0; 2].map(|_| StallTimer::new(config.receive_timeout)),
            timeout: config.timeout,
            events: Vec::new(),
        }
    }

    /// Does all pending work; returns the number of events processed.
    #[inline]
    pub(super) fn work(&mut self, endpoint: &Endpoint) -> Result<usize, LaneEnd> {
        let count = self.process_events(endpoint)?;
        self.deliver()?;
        // Not before replies are sent, to keep latency low: a few slots may be unposted for a moment.
        if count == 0 || self.slots.must_post() {
            self.slots.post(endpoint).map_err(frame_failure)?;
        }
        self.fetch(endpoint)?;
        self.push(endpoint)?;
        self.send_replies(endpoint)?;
        // After receiving something we are likely to send something, which reports progress too.
        if count == 0 || self.should_report() {
            self.report_progress(endpoint)?;
        }
        Ok(count)
    }

    /// Does deferred work: before the lane sleeps, and periodically while it is busy.
    pub(super) fn flush_deferred(&mut self, endpoint: &Endpoint) -> Result<(), LaneEnd> {
        self.slots.post(endpoint).map_err(frame_failure)?;
        self.report_progress(endpoint)
    }

    /// Submits waiting operations to the provider.
    #[inline]
    pub(super) fn push(&mut self, endpoint: &Endpoint) -> Result<(), LaneEnd> {
        if self.key_check.is_some() {
            return Ok(());
        }
        self.sends.set_progress(self.progress());
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        let pushed = self.sends.push(endpoint, &mut sink);
        pushed.map_err(|errno| self.end_at_oldest(frame_failure(errno)))
    }

    #[inline]
    fn process_events(&mut self, endpoint: &Endpoint) -> Result<usize, LaneEnd> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let read = endpoint.cq().read(&mut events);
        let taken = events.iter().try_for_each(|event| self.take_event(event));
        let count = events.len();
        self.events = events;
        taken?;
        read.map_err(frame_failure)?;
        Ok(count)
    }

    #[inline]
    fn take_event(&mut self, event: &Event) -> Result<(), LaneEnd> {
        if let Some(slot) = self.slots.contexts().index(event.context) {
            return self.receive(slot as u32, event);
        }
        match (self.sends.out().contexts().index(event.context), event.result) {
            (Some(context), result) => self.complete(context, result),
            // Not posted here: a write of the peer, or its failure, which is reported to the peer.
            (None, _) => Ok(()),
        }
    }

    #[inline]
    fn complete(&mut self, context: usize, result: Result<(), Errno>) -> Result<(), LaneEnd> {
        let used = self.sends.complete(context);
        match (result, used) {
            (Ok(()), ContextUse::Transfer { at, .. } | ContextUse::Frame(at)) => {
                let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
                self.sends.succeed(at, &mut sink);
                Ok(())
            }
            (Ok(()), ContextUse::Fetch { at, .. }) => self.fragment_read(at),
            (Ok(()), ContextUse::Free | ContextUse::Control) => Ok(()),
            (Err(errno), _) => self.handle_failure(used, errno),
        }
    }

    /// Reads fragments of long messages from the peer's rendezvous buffers into their receives.
    #[inline]
    fn fetch(&mut self, endpoint: &Endpoint) -> Result<(), LaneEnd> {
        while self.key_check.is_none()
            && let Some((at, fetch)) = self.inbox.fetches.front()
            && let Some(receive) = self.inbox.receive(fetch.message)
        {
            let read = self.sends.fetch((at, fetch), receive.work.local(), endpoint);
            match read.map_err(frame_failure)? {
                Some(bytes) => self.inbox.fetches.advance(bytes),
                None => break,
            }
        }
        Ok(())
    }

    /// A read of a fragment has completed. The last fragment of a message needs no `FragmentRead`: the peer learns from the progress
    /// that the message was received.
    fn fragment_read(&mut self, at: u32) -> Result<(), LaneEnd> {
        let Some(Fetch { message: id, offset, .. }) = self.inbox.fetches.complete(at) else {
            return Ok(());
        };
        self.freed += 1;
        if !self.inbox.fragment_read(id) {
            self.reply(Frame::FragmentRead { id, offset: offset as u64 }, None)?;
        }
        Ok(())
    }

    /// An operation of the provider failed.
    #[cold]
    fn handle_failure(&mut self, used: ContextUse, errno: Errno) -> Result<(), LaneEnd> {
        if let Some(key_check) = &mut self.key_check {
            // The query itself may have been lost too.
            key_check.sent &= used != ContextUse::Control;
            return Ok(());
        }
        let transfer = |used: &ContextUse| match used {
            ContextUse::Transfer { at, .. } => Some(*at),
            _ => None,
        };
        let failed = transfer(&used);
        let suspect = failed.or_else(|| self.sends.out().find(transfer));
        let suspect = suspect.and_then(|at| Some((at, self.sends.key(at)?)));
        match (failed, transfer_failure(errno), suspect) {
            (Some(at), Some(failure), _) => {
                Err(LaneEnd { operation: Some(at), ..LaneEnd::from(failure) })
            }
            (_, None, Some((at, key))) => {
                self.key_check = Some(KeyCheck { at, key, sent: false, since: Instant::now() });
                Ok(())
            }
            _ => Err(self.end_at_oldest(frame_failure(errno))),
        }
    }

    fn receive(&mut self, slot: u32, event: &Event) -> Result<(), LaneEnd> {
        if let Err(errno) = event.result {
            self.slots.free(slot);
            return match frame_failure(errno) {
                // On some providers a broken connection cancels posted receives.
                Failure::PeerGone => Ok(()),
                // Longer than any frame of the peer: sent by an unknown peer.
                Failure::ProtocolError => Ok(()),
                failure => Err(failure.into()),
            };
        }
        let payload = event.length.checked_sub(HEADER_BYTES);
        let frame = payload.and_then(|_| decode_frame(self.secret, &self.slots.header(slot)));
        let (Some(frame), Some(length)) = (frame, payload) else {
            self.slots.free(slot);
            return Ok(());
        };
        let ((progress, frame), length) = (frame?, length as u64);
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        self.sends.peer_progress(progress, &mut sink)?;
        self.arrived += u64::from(frame.takes_a_buffer());
        // A peer that exceeds its credit would fill the provider's own queues next, which are unbounded.
        if self.arrived - self.freed > self.slots.credit() {
            return Err(Failure::ProtocolError.into());
        }
        if let Frame::Message { id, total, offset, imm } = frame {
            if total == length
                && offset == 0
                && let Some(receive) = self.inbox.take_next(id, total)
            {
                let (memory, at) = self.slots.payload(slot);
                scatter(receive.work.local(), 0, total as usize, memory, at);
                self.slots.free(slot);
                self.freed += 1;
                sink.add(receive, Ok(Done::Received { length: total as usize, imm }));
                return Ok(());
            }
            let fragment =
                MessageFragment { location: FragmentLocation::Slot(slot), offset, length };
            return Ok(self.inbox.message(id, total, imm, fragment)?);
        }
        let handled = self.handle_payload(frame, slot, length);
        self.slots.free(slot);
        // A fragment in the peer's rendezvous buffers counts until it is read.
        let is_freed = frame.takes_a_buffer() && !matches!(frame, Frame::Rendezvous { .. });
        self.freed += u64::from(is_freed);
        if handled? {
            return Ok(());
        }
        if length > 0 {
            return Err(Failure::ProtocolError.into());
        }
        self.handle_control(frame)
    }

    /// Handles a frame with a payload, other than a message; `false` if the frame is of another type.
    fn handle_payload(&mut self, frame: Frame, slot: u32, length: u64) -> Result<bool, LaneEnd> {
        let (memory, at) = self.slots.payload(slot);
        match frame {
            Frame::Put { id, key, offset } => {
                let slice = self.granted.slice(key, offset, length, WRITE);
                if let Some(slice) = &slice {
                    slice.region().memory().copy(slice.offset(), memory, at, slice.len());
                }
                self.reply(Frame::Reply { id, old: slice.map(|_| 0) }, None)?;
            }
            Frame::Data { id } => {
                let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
                self.sends.data(id, (memory, at), length, &mut sink)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn handle_control(&mut self, frame: Frame) -> Result<(), LaneEnd> {
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        match frame {
            Frame::Message { .. } | Frame::Put { .. } | Frame::Data { .. } => {}
            Frame::Rendezvous { id, total, offset, imm, from } => {
                let left = total.checked_sub(offset).filter(|left| *left > 0);
                let left = left.ok_or(Failure::ProtocolError)?;
                // Not used with providers that lack memory protection.
                if !offset.is_multiple_of(FRAGMENT_BYTES as u64)
                    || self.sends.max_reply_bytes().is_some()
                {
                    return Err(Failure::ProtocolError.into());
                }
                let fragment = MessageFragment {
                    location: FragmentLocation::Peer(from),
                    offset,
                    length: left.min(FRAGMENT_BYTES as u64),
                };
                self.inbox.message(id, total, imm, fragment)?;
            }
            Frame::FragmentRead { id, offset } => self.sends.fragment_read(id, offset)?,
            Frame::Immediate { id, length, imm } => match self.inbox.take_next(id, 0) {
                Some(receive) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    sink.add(receive, Ok(Done::Received { length, imm: Some(imm) }));
                }
                None => self.inbox.immediate(id, length, imm)?,
            },
            Frame::Atomic { id, key, offset, op } => {
                let old = self.granted.apply(key, offset, op);
                self.reply(Frame::Reply { id, old }, None)?;
            }
            Frame::Get { id, key, offset, length } => {
                let max = self.sends.max_reply_bytes().ok_or(Failure::ProtocolError)?;
                let bytes = self.granted.slice(key, offset, length, READ).filter(|_| length <= max);
                match bytes {
                    Some(bytes) => self.reply(Frame::Data { id }, Some(bytes))?,
                    None => self.reply(Frame::Reply { id, old: None }, None)?,
                }
            }
            Frame::CheckKey { id, key } => {
                let old = self.granted.contains(key).then_some(0);
                self.reply(Frame::Reply { id, old }, None)?;
            }
            Frame::Reply { id: KEY_CHECK_ID, old } => {
                if let Some(key_check) = &self.key_check {
                    let failure = if old.is_some() { Failure::PeerGone } else { Failure::Access };
                    return Err(LaneEnd {
                        operation: Some(key_check.at),
                        ..LaneEnd::from(failure)
                    });
                }
            }
            Frame::Reply { id, old } => {
                self.sends.reply(id, old, &mut sink).map_err(|refused| {
                    let failure = refused.map_or(Failure::ProtocolError, |_| Failure::Access);
                    LaneEnd { operation: refused, ..LaneEnd::from(failure) }
                })?;
            }
            Frame::ProgressOnly => {}
            Frame::Close { failure, id } => return Err(self.closed_by_peer(failure, id)),
        }
        Ok(())
    }

    /// The peer closed the lane. If a message of ours caused it, its operation fails with the reason.
    fn closed_by_peer(&self, failure: Failure, id: Option<u64>) -> LaneEnd {
        match id.and_then(|id| self.sends.message(id)) {
            Some(at) if failure == Failure::TooLong => {
                LaneEnd { operation: Some(at), ..LaneEnd::from(failure) }
            }
            _ => self.end_at_oldest(Failure::PeerGone),
        }
    }

    fn reply(&mut self, frame: Frame, bytes: Option<Slice>) -> Result<(), Failure> {
        if self.replies.len() >= MAX_REPLIES {
            return Err(Failure::ProtocolError);
        }
        self.replies.push_back(PendingReply { frame, bytes });
        Ok(())
    }

    #[inline]
    pub(super) fn deliver(&mut self) -> Result<(), LaneEnd> {
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        let delivered = self.inbox.deliver(&mut self.slots, &mut self.freed, &mut sink);
        delivered.map_err(|TooLong { id }| LaneEnd { message: Some(id), ..Failure::TooLong.into() })
    }

    /// Whether so many slots, or fragments in the peer's rendezvous buffers, were freed that the peer may be waiting for the report.
    #[inline]
    fn should_report(&self) -> bool {
        let reported = self.sends.out().reported();
        self.freed - reported.freed >= self.slots.credit() / 4
            || self.inbox.fetches.received() >= reported.received + 2
    }

    /// Reports progress to the peer, if it changed since the last report.
    #[inline]
    fn report_progress(&mut self, endpoint: &Endpoint) -> Result<(), LaneEnd> {
        let progress = self.progress();
        // One report at a time: the next one includes later progress.
        if progress == self.sends.out().reported() || self.sends.out().is_sending() {
            return Ok(());
        }
        self.sends.set_progress(progress);
        let sent = self.sends.send_control(Frame::ProgressOnly, endpoint).map(drop);
        self.check_sent(sent)
    }

    /// Sends the key query and pending replies.
    #[inline]
    fn send_replies(&mut self, endpoint: &Endpoint) -> Result<(), LaneEnd> {
        if self.key_check.is_none() && self.replies.is_empty() {
            return Ok(());
        }
        self.sends.set_progress(self.progress());
        let sent = self.try_send_replies(endpoint);
        self.check_sent(sent)
    }

    fn check_sent(&self, sent: Result<(), Errno>) -> Result<(), LaneEnd> {
        match sent {
            // During a key query, lost frames are sent again.
            Err(_) if self.key_check.is_some() => Ok(()),
            other => other.map_err(|errno| self.end_at_oldest(frame_failure(errno))),
        }
    }

    fn try_send_replies(&mut self, endpoint: &Endpoint) -> Result<(), Errno> {
        if let Some(key_check) = self.key_check.as_mut().filter(|key_check| !key_check.sent) {
            let query = Frame::CheckKey { id: KEY_CHECK_ID, key: key_check.key };
            key_check.sent = self.sends.send_control(query, endpoint)?;
        }
        while let Some(reply) = self.replies.front()
            && send_reply(&mut self.sends, reply, endpoint)?
        {
            self.replies.pop_front();
        }
        Ok(())
    }

    #[inline]
    fn progress(&self) -> Progress {
        let received = self.inbox.received();
        Progress { arrived: self.arrived, freed: self.freed, received }
    }

    /// Fails if something made no progress within its timeout.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), LaneEnd> {
        if let Some(key_check) = &self.key_check {
            if now.saturating_duration_since(key_check.since) > self.timeout {
                return Err(LaneEnd { operation: Some(key_check.at), ..Failure::PeerGone.into() });
            }
            return Ok(());
        }
        // Also counts reads that the provider has not accepted yet.
        let fetches = || self.inbox.fetches.front().map(|_| self.sends.out().activity());
        if self.transfer_timer.is_stalled(self.sends.transfer_progress().or_else(fetches), now) {
            return Err(self.end_at_oldest(Failure::PeerGone));
        }
        for (timer, wait) in self.peer_timers.iter_mut().zip(self.sends.peer_waits()) {
            if timer.is_stalled(wait.map(|wait| wait.progress), now) {
                let all_arrived = self.sends.all_arrived();
                let failure = if all_arrived { Failure::NotReady } else { Failure::PeerGone };
                let operation = wait.and_then(|wait| wait.at).or(self.sends.oldest());
                return Err(LaneEnd { operation, ..failure.into() });
            }
        }
        Ok(())
    }

    /// When to poll again, even if there are no events.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        // The timers are not checked during a key query, and would stay expired.
        if self.key_check.is_some() {
            return Some(now + RETRY_PAUSE);
        }
        let waits = self.sends.out().is_blocked()
            || self.slots.has_unposted()
            || self.inbox.fetches.front().is_some()
            || self.progress() != self.sends.out().reported()
            || !self.replies.is_empty();
        let retry = waits.then(|| now + RETRY_PAUSE);
        let [message, request] = &self.peer_timers;
        let dues = [self.transfer_timer.due(), message.due(), request.due(), retry];
        dues.into_iter().flatten().min()
    }

    pub(super) fn end_at_oldest(&self, failure: Failure) -> LaneEnd {
        LaneEnd { operation: self.sends.oldest(), ..failure.into() }
    }

    /// Sends the reason for the lane's end to the peer, within `CLOSE_TIMEOUT`.
    #[cold]
    pub(super) fn send_close(&mut self, end: &LaneEnd, endpoint: &Endpoint) {
        let close = Frame::Close { failure: end.failure, id: end.message };
        let started = Instant::now();
        let (mut sent, mut events) = (false, Vec::new());
        while started.elapsed() < CLOSE_TIMEOUT && (!sent || self.sends.out().is_sending()) {
            if !sent {
                match self.sends.send_control(close, endpoint) {
                    Ok(now) => sent = now,
                    Err(_) => return,
                }
            }
            events.clear();
            if endpoint.cq().read(&mut events).is_err() {
                return;
            }
            for event in &events {
                if let Some(context) = self.sends.out().contexts().index(event.context) {
                    self.sends.complete(context);
                }
            }
        }
    }

    /// The resources that the endpoint uses as long as it is open.
    pub(super) fn used(&self) -> [(Arc<Mr>, Arc<Contexts>); 2] {
        [self.slots.used(), self.sends.out().used()]
    }

    /// Keeps the memory of all completed operations, because the endpoint was not closed, which is counted there.
    pub(super) fn keep_completed(&self) {
        let slices = self.ready.iter().flat_map(|completion| completion.work.local());
        std::mem::forget(slices.cloned().collect::<Vec<Slice>>());
    }

    /// The endpoint is closed: completes all operations.
    pub(super) fn abandon(&mut self, end: &LaneEnd) {
        let mut sink = CompletionSink { stats: &self.stats, done: &mut self.ready };
        let fault = end.operation.map(|at| (at, end.failure));
        let found = self.sends.abandon(fault, &mut sink);
        self.granted.release();
        // If only receives were in flight, the oldest one reports the reason.
        let first = match end.failure {
            failure @ (Failure::PeerGone | Failure::Local) if !found => failure,
            _ => Failure::Flushed,
        };
        self.inbox.abandon(first, &mut sink);
    }
}

fn send_reply(sends: &mut Sends, reply: &PendingReply, endpoint: &Endpoint) -> Result<bool, Errno> {
    match &reply.bytes {
        Some(bytes) => sends.send_control_with(reply.frame, bytes, endpoint),
        None => sends.send_control(reply.frame, endpoint),
    }
}

const READ: Rights = Rights { read: true, ..Rights::NONE };
const WRITE: Rights = Rights { write: true, ..Rights::NONE };

/// The id of a key query; ids of operations start at 0.
const KEY_CHECK_ID: u64 = u64::MAX;
/// Well-behaved peers have at most as many outstanding requests as we have buffers.
const MAX_REPLIES: usize = 1024;
/// The time after which operations that the provider did not accept are retried.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long a lane tries to report its end. A peer that does not receive the report notices it by its timeout.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(20);
