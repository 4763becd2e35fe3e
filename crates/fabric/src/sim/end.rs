//! One end of a lane: its operations and grants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Answer, Change, Request, scatter};
use crate::grants::Grants;
use crate::op::{Completion, Done, Failure, Op, OpKind, Work};
use crate::packets::ReceivedPackets;
use crate::region::Rights;
use crate::setup::Side;

/// One end of a lane.
pub(super) struct End {
    pub(super) host: String,
    pub(super) wire: String,
    pub(super) side: Side,
    pub(super) state: EndState,
    pub(super) peer: Option<u32>,
    pub(super) grants: Grants,
    /// Our unfinished calls. The first is the oldest.
    pub(super) calls: BTreeSet<u64>,
    pub(super) receives: VecDeque<Op>,
    /// Messages that arrived before their receives; at most `max_unexpected`.
    unexpected_messages: VecDeque<UnexpectedMessage>,
    max_unexpected: usize,
    /// The number of started calls: the order of the next.
    pub(super) calls_started: u64,
    pub(super) arrivals: Arrivals,
    /// Packets that have arrived, and calls of those sent: whether each was answered, from the oldest that was not.
    pub(super) packets: ReceivedPackets,
    sent_packets: VecDeque<(u64, bool)>,
    pub(super) packets_delivered: u64,
    /// Why it is dead.
    pub(super) failure: Option<Failure>,
    /// Completions that were not polled yet.
    completions: VecDeque<TimedCompletion>,
    /// Numbers of operations posted and not returned: receives, and all others.
    pub(super) receives_in_use: usize,
    pub(super) others_in_use: usize,
    /// An eventfd, signalled when an operation is finished.
    wakeup: Arc<OwnedFd>,
}

/// The state of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndState {
    /// It has no peer yet.
    Unconnected,
    /// It works.
    Live,
    /// It failed or was closed: operations are returned, and its memory is not changed any more.
    Dead,
    /// Its host was killed: operations are never returned.
    Killed,
}

/// Which of the peer's calls were served: they arrive in any order, and more than once.
#[derive(Default)]
pub(super) struct Arrivals {
    /// All calls before this one are served.
    next: u64,
    /// Served calls after it, if operations are not ordered.
    ahead: BTreeSet<u64>,
    /// Calls that arrived early and wait for earlier ones, by order.
    pub(super) early: BTreeMap<u64, u64>,
}

/// A completion, and its duration if that is a latency sample.
pub(super) struct TimedCompletion {
    pub(super) completion: Completion,
    pub(super) took: Option<Duration>,
}

/// A message that waits for a receive.
struct UnexpectedMessage {
    bytes: Vec<u8>,
    /// Of the message, or of the write with immediate data.
    length: usize,
    imm: Option<u32>,
}

/// The result of serving a request.
pub(super) enum ServeResult {
    Done(Answer),
    /// There is no receive for it.
    NotReady,
    /// The lane ends, at both ends.
    Refused(Failure),
}

impl End {
    pub(super) fn new(
        host: &str,
        wire: &str,
        side: Side,
        wakeup: Arc<OwnedFd>,
        max_unexpected: usize,
    ) -> Self {
        End {
            host: host.to_owned(),
            wire: wire.to_owned(),
            side,
            state: EndState::Unconnected,
            peer: None,
            grants: Grants::default(),
            calls: BTreeSet::new(),
            receives: VecDeque::new(),
            unexpected_messages: VecDeque::new(),
            max_unexpected,
            calls_started: 0,
            arrivals: Arrivals::default(),
            packets: ReceivedPackets::default(),
            sent_packets: VecDeque::new(),
            packets_delivered: 0,
            failure: None,
            completions: VecDeque::new(),
            receives_in_use: 0,
            others_in_use: 0,
            wakeup,
        }
    }

    /// The number of operations of this kind that are posted and not returned.
    pub(super) fn in_use(&mut self, kind: OpKind) -> &mut usize {
        if kind == OpKind::Receive { &mut self.receives_in_use } else { &mut self.others_in_use }
    }

    /// Queues a completion.
    pub(super) fn finish(
        &mut self,
        op: Op,
        outcome: Result<Done, Failure>,
        took: Option<Duration>,
    ) {
        let completion = Completion { op_id: op.op_id, outcome, work: op.work };
        self.completions.push_back(TimedCompletion { completion, took });
        self.signal();
    }

    fn signal(&self) {
        // Fails only if the eventfd's counter overflows.
        let _ = rustix::io::write(&*self.wakeup, &1u64.to_ne_bytes());
    }

    /// A call of ours ends.
    pub(super) fn finish_call(
        &mut self,
        id: u64,
        op: Option<Op>,
        outcome: Result<Done, Failure>,
        took: Option<Duration>,
    ) {
        match op {
            Some(op) => self.finish(op, outcome, took),
            None => {
                self.others_in_use -= 1;
                self.packet_answered(id, outcome.is_ok());
            }
        }
    }

    pub(super) fn packet_sent(&mut self, id: u64) {
        self.others_in_use += 1;
        self.sent_packets.push_back((id, false));
    }

    fn packet_answered(&mut self, id: u64, delivered: bool) {
        if let Some((_, done)) = self.sent_packets.iter_mut().find(|(sent, _)| *sent == id) {
            *done = delivered;
        }
        while let Some((_, true)) = self.sent_packets.front() {
            self.sent_packets.pop_front();
            self.packets_delivered += 1;
        }
        self.signal();
    }

    /// It ends, if it did not before.
    pub(super) fn end(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.signal();
    }

    /// The next completion.
    pub(super) fn next_completion(&mut self) -> Option<TimedCompletion> {
        let completion = self.completions.pop_front()?;
        *self.in_use(completion.completion.work.kind()) -= 1;
        Some(completion)
    }

    /// Resets the eventfd if there are no completions. Returns whether there are none.
    pub(super) fn clear_wakeup(&self) -> bool {
        let unnoticed_end = self.packets.are_accepted() && self.failure.is_some();
        let idle = self.completions.is_empty() && self.packets.is_empty() && !unnoticed_end;
        if idle {
            // Does not block; fails harmlessly if it was not signalled.
            let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        }
        idle
    }

    /// Executes a peer's request, if it has the right.
    pub(super) fn serve(&mut self, request: &Request) -> ServeResult {
        let served = match request {
            Request::Write { key, offset, bytes, imm: None } => self.place(*key, *offset, bytes),
            Request::Write { key, offset, bytes, imm: Some(imm) } => {
                self.place_and_notify(*key, *offset, bytes, *imm)
            }
            Request::Read { key, offset, length } => self.read(*key, *offset, *length),
            Request::Send { bytes, imm } => return self.receive(bytes, bytes.len(), *imm),
            Request::Atomic { key, offset, change } => self.change(*key, *offset, *change),
            Request::Packet { bytes } => self.receive_packet(bytes),
        };
        served.unwrap_or_else(ServeResult::Refused)
    }

    fn place(&self, key: u128, offset: u64, bytes: &[u8]) -> Result<ServeResult, Failure> {
        let to = self.grants.check(key, offset, bytes.len() as u64, WRITE)?;
        scatter(bytes, &[to]);
        Ok(ServeResult::Done(Answer::Placed))
    }

    fn place_and_notify(
        &mut self,
        key: u128,
        offset: u64,
        bytes: &[u8],
        imm: u32,
    ) -> Result<ServeResult, Failure> {
        let to = self.grants.check(key, offset, bytes.len() as u64, WRITE)?;
        if !self.can_receive() {
            return Ok(ServeResult::NotReady);
        }
        scatter(bytes, &[to]);
        // Immediate data is received after the bytes.
        Ok(self.receive(&[], bytes.len(), Some(imm)))
    }

    fn read(&self, key: u128, offset: u64, length: u64) -> Result<ServeResult, Failure> {
        let from = self.grants.check(key, offset, length, READ)?;
        Ok(ServeResult::Done(Answer::Bytes(from.to_vec())))
    }

    /// A load and a store are atomic here, since all simulated lanes hold the
    /// world's lock. The owner's own stores are not excluded, as with a NIC.
    fn change(&self, key: u128, offset: u64, change: Change) -> Result<ServeResult, Failure> {
        let word = self.grants.check_word(key, offset)?;
        let memory = word.region().memory();
        let old = memory.load(word.offset());
        memory.store(word.offset(), change.apply(old));
        Ok(ServeResult::Done(Answer::Old(old)))
    }

    fn receive_packet(&mut self, bytes: &[u8]) -> Result<ServeResult, Failure> {
        if !self.packets.fits(bytes.len()) {
            return Err(Failure::ProtocolError);
        }
        self.packets.push(bytes.to_vec());
        self.signal();
        Ok(ServeResult::Done(Answer::Placed))
    }

    /// Whether a message finds a receive, or is kept.
    fn can_receive(&self) -> bool {
        !self.receives.is_empty() || self.unexpected_messages.len() < self.max_unexpected
    }

    fn receive(&mut self, bytes: &[u8], length: usize, imm: Option<u32>) -> ServeResult {
        let message = UnexpectedMessage { bytes: bytes.to_vec(), length, imm };
        match self.receives.pop_front() {
            Some(receive) => self.complete(receive, &message),
            None if self.can_receive() => {
                self.unexpected_messages.push_back(message);
                ServeResult::Done(Answer::Placed)
            }
            None => ServeResult::NotReady,
        }
    }

    fn complete(&mut self, receive: Op, message: &UnexpectedMessage) -> ServeResult {
        let UnexpectedMessage { bytes, length, imm } = message;
        if receive.work.total() < bytes.len() {
            self.finish(receive, Err(Failure::TooLong), None);
            return ServeResult::Refused(Failure::TooLong);
        }
        scatter(bytes, receive.work.local());
        self.finish(receive, Ok(Done::Received { length: *length, imm: *imm }), None);
        ServeResult::Done(Answer::Placed)
    }

    /// Whether messages wait for receives.
    pub(super) fn has_unexpected(&self) -> bool {
        !self.unexpected_messages.is_empty()
    }

    /// Posts a receive, for which a message may wait; `false` if the lane must end.
    pub(super) fn post_receive(&mut self, receive: Op) -> bool {
        match self.unexpected_messages.pop_front() {
            Some(message) => matches!(self.complete(receive, &message), ServeResult::Done(_)),
            None => {
                self.receives.push_back(receive);
                true
            }
        }
    }

    /// Whether the lane supports this. `lane` is the id of valid windows.
    pub(super) fn supports(work: &Work, lane: u64) -> bool {
        let ours = work.target().is_none_or(|target| target.window.lane() == lane);
        let fits = match work {
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
                old.len() == 8 && old.address().addr().is_multiple_of(8)
            }
            Work::Send { .. } => work.total() <= MAX_MESSAGE,
            _ => true,
        };
        ours && fits && work.local().len() <= MAX_SLICES
    }
}

impl Arrivals {
    /// Whether everything before this call was served.
    pub(super) fn is_next(&self, order: u64) -> bool {
        order == self.next
    }

    /// Marks a call as served.
    pub(super) fn mark_served(&mut self, order: u64) {
        self.early.remove(&order);
        self.ahead.insert(order);
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }

    /// The next call in order, if it arrived early.
    pub(super) fn next_early(&mut self) -> Option<u64> {
        self.early.remove(&self.next)
    }
}

pub(super) const MAX_MESSAGE: usize = 1 << 30;
pub(super) const MAX_SLICES: usize = 16;
const READ: Rights = Rights { read: true, ..Rights::NONE };
const WRITE: Rights = Rights { write: true, ..Rights::NONE };
