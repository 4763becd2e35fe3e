//! The lane of a rail with all that belongs to it: its messages, its keys, and what it has to do.
//!
//! `out` and `bytes_out` count what is in the queue or with the lane, receives apart: each operation is added by
//! [`RailLane::add`] and taken off by [`RailLane::remove`]. The order in which operations are put into the queue is the
//! order in which the lane gets them: the proofs of those on an ordered lane rest on that.

mod reach;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::keys::Keys;
use super::probe::Probe;
use crate::lane::Lane;
use crate::link::messages::message_queue::{MessageQueue, Payload};
use crate::link::operations::NEVER;
use crate::link::protocol::header::Header;
use crate::op::{Completion, Done, Failure, Op, Pieces, Work};
use crate::stats::Stats;

pub(in crate::link) struct RailLane {
    lane: Box<dyn Lane>,
    messages: MessageQueue,
    keys: Keys,
    probe: Probe,
    /// What the lane had no room for yet.
    queue: VecDeque<Op>,
    out: u32,
    bytes_out: u64,
    /// When something was last completed, while something is out; `None` until time is next told.
    progress: Option<Duration>,
    counts: MessageCounts,
    /// From the lane's capabilities, for the hot path.
    ordered: bool,
    depth: u32,
    closed: bool,
}

/// Messages of one lane.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::link::rails) struct MessageCounts {
    /// Ours: posted, and arrived for sure.
    sent: u64,
    pub(in crate::link::rails) arrived: u64,
    /// The peer's.
    pub(in crate::link::rails) received: u64,
}

/// What a receive of a lane came back with.
pub(in crate::link) enum Received {
    /// No message, and nothing wrong.
    Nothing,
    Failed(Failure),
    Malformed {
        length: usize,
    },
    Message {
        slot: u32,
        header: Header,
        payload: Payload,
    },
}

impl RailLane {
    pub(in crate::link::rails) fn new(
        lane: Box<dyn Lane>,
        messages: MessageQueue,
        probe: Probe,
    ) -> Self {
        let caps = lane.caps();
        RailLane {
            ordered: caps.ordered,
            depth: caps.depth as u32,
            lane,
            messages,
            keys: Keys::default(),
            probe,
            queue: VecDeque::new(),
            out: 0,
            bytes_out: 0,
            progress: None,
            counts: MessageCounts::default(),
            closed: false,
        }
    }

    // Operations.

    /// Whether it takes so many bytes more, with at most `window` in flight.
    #[inline]
    pub(in crate::link) fn has_room(&self, bytes: u64, window: u64) -> bool {
        self.has_place() && (self.out == 0 || self.bytes_out + bytes <= window)
    }

    /// Whether it takes one more operation.
    #[inline]
    pub(in crate::link) fn has_place(&self) -> bool {
        self.out < self.depth
    }

    /// How many more operations it takes.
    #[inline]
    pub(in crate::link) fn free_places(&self) -> usize {
        self.depth.saturating_sub(self.out) as usize
    }

    /// Whether something waits for room in the lane.
    #[inline]
    pub(in crate::link) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    #[inline]
    pub(in crate::link) fn out(&self) -> u32 {
        self.out
    }

    #[inline]
    pub(in crate::link) fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    /// Counts operations that are given to it.
    #[inline]
    pub(in crate::link) fn add(&mut self, count: u32, bytes: u64) {
        if self.out == 0 {
            self.progress = None;
        }
        self.out += count;
        self.bytes_out += bytes;
    }

    /// Counts one that came back.
    #[inline]
    pub(in crate::link) fn remove(&mut self, bytes: u64) {
        self.out -= 1;
        self.bytes_out -= bytes;
    }

    /// If the peer received so many messages, and the lane keeps order, then a write or a read that is given to it
    /// now took effect.
    #[inline]
    pub(in crate::link) fn proof(&self, work: &Work) -> u64 {
        match work {
            Work::Read { .. } => NEVER,
            // A message that is sent later and received proves it.
            _ => self.counts.sent + 1,
        }
    }

    /// As [`RailLane::proof`], of a message, which is counted.
    #[inline]
    pub(in crate::link) fn proof_of_message(&mut self) -> u64 {
        self.counts.sent += 1;
        self.counts.sent
    }

    /// A message has arrived for sure.
    #[inline]
    pub(in crate::link) fn message_arrived(&mut self) {
        self.counts.arrived += 1;
    }

    #[inline]
    pub(in crate::link) fn push(&mut self, op: Op) {
        self.queue.push_back(op);
    }

    /// Posts what was pushed.
    #[inline]
    pub(in crate::link::rails) fn ring(&mut self) {
        if !self.queue.is_empty() {
            self.lane.post(&mut self.queue);
        }
    }

    /// Posts operations from where they are. What the lane has no room for is in the queue then.
    #[inline]
    pub(in crate::link) fn post(&mut self, ops: &mut VecDeque<Op>) {
        self.lane.post(ops);
        self.queue.append(ops);
    }

    /// Appends what is over; `false` if there is nothing to look at.
    #[inline]
    pub(in crate::link) fn poll(&mut self, now: Duration, done: &mut Vec<Completion>) -> bool {
        let changed = self.lane.poll(done) > 0 || self.progress.is_none();
        if changed {
            self.progress = Some(now);
        }
        changed
    }

    /// Whether nothing was completed for so long, though something is out. Where the peer's own CPU must help, a busy
    /// peer is no dead lane.
    pub(in crate::link) fn is_stuck(&self, now: Duration, timeout: Duration) -> bool {
        let still = self.progress.is_some_and(|since| since + timeout <= now);
        self.out > 0 && still && !self.lane.caps().peer_must_poll
    }

    /// Whether something was completed at this time.
    pub(in crate::link) fn has_progressed(&self, now: Duration) -> bool {
        self.progress == Some(now)
    }

    /// When it counts as stuck, if nothing is completed.
    pub(in crate::link::rails) fn next_due(
        &self,
        now: Duration,
        timeout: Duration,
    ) -> Option<Duration> {
        (self.out > 0).then(|| self.progress.unwrap_or(now) + timeout)
    }

    // Messages.

    #[inline]
    pub(in crate::link) fn messages(&self) -> &MessageQueue {
        &self.messages
    }

    #[inline]
    pub(in crate::link) fn messages_mut(&mut self) -> &mut MessageQueue {
        &mut self.messages
    }

    /// Posts the slots that are free again; `Err` if the lane has no room for them. `receives` is room for that.
    #[inline]
    pub(in crate::link::rails) fn refill(
        &mut self,
        receives: &mut VecDeque<Op>,
    ) -> Result<(), &'static str> {
        if !self.messages.has_idle() {
            return Ok(());
        }
        self.messages.receives(receives, |slot| RECEIVE | u64::from(slot));
        self.lane.post(receives);
        if !receives.is_empty() {
            receives.drain(..).for_each(|_| self.messages.returned(None));
            return Err("the lane has no room for its receives");
        }
        Ok(())
    }

    /// A receive came back.
    pub(in crate::link) fn receive(&mut self, completion: Completion) -> Received {
        let slot = (completion.token & !RECEIVE) as u32;
        let slice = match completion.work {
            Work::Receive { into: Pieces::One(slice) } => Some((slot, slice)),
            _ => None,
        };
        self.messages.returned(slice);
        let (length, imm) = match completion.outcome {
            Ok(Done::Received { length, imm }) => (length, imm),
            Ok(_) => return Received::Nothing,
            Err(_) if self.closed => return Received::Nothing,
            Err(failure) => return Received::Failed(failure),
        };
        self.counts.received += 1;
        // Immediate data of a lane's write comes with no message: what lies in the slot then is an old one.
        let header = imm.is_none().then(|| self.messages.header(slot, length)).flatten();
        match header {
            Some((header, payload)) => Received::Message { slot, header, payload },
            None => Received::Malformed { length },
        }
    }

    // The rest.

    #[inline]
    pub(in crate::link) fn is_ordered(&self) -> bool {
        self.ordered
    }

    pub(in crate::link) fn stats(&self) -> &Arc<Stats> {
        self.lane.stats()
    }

    pub(in crate::link::rails) fn fd(&self) -> BorrowedFd<'_> {
        self.lane.fd()
    }

    /// Prepares for sleep; `false` if there is something to do.
    pub(in crate::link::rails) fn arm(&mut self) -> bool {
        self.queue.is_empty() && self.lane.arm()
    }

    // The end.

    /// Ends the lane. What it never had comes back like what it had.
    pub(in crate::link::rails) fn close(&mut self) {
        self.closed = true;
        self.lane.close();
        self.lane.post(&mut self.queue);
    }

    #[inline]
    pub(in crate::link) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it has nothing of ours any more.
    pub(in crate::link::rails) fn is_drained(&self) -> bool {
        self.closed && self.out == 0 && !self.messages.has_posted()
    }

    pub(in crate::link::rails) fn counts(&self) -> MessageCounts {
        self.counts
    }

    #[cfg(test)]
    pub(in crate::link) fn describe(&self) -> String {
        let (out, bytes, queue) = (self.out, self.bytes_out, self.queue.len());
        format!("out {out} bytes {bytes} queue {queue} messages {:?}", self.messages)
    }
}

/// Tells receives from other operations of a lane, in their tokens.
pub(in crate::link) const RECEIVE: u64 = 1 << 63;
