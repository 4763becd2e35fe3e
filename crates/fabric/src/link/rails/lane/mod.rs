//! The lane of a rail with its messages, keys and queue.
//!
//! `in_flight` and `bytes_in_flight` count operations in the queue or posted, without receives: each is added by
//! [`RailLane::add`] and subtracted by [`RailLane::remove`]. Operations are posted in the order in which they are
//! queued: `confirmed_at` depends on that on an ordered lane.

mod regions;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::keys::Keys;
use super::probe::Probe;
use crate::lane::Lane;
use crate::link::messages::message_buffers::{MessageBuffers, Payload};
use crate::link::operations::NEVER_CONFIRMED;
use crate::link::protocol::header::{Header, MessageClass};
use crate::op::{Completion, Done, Failure, Op, Slices, Work};
use crate::stats::Stats;

pub(in crate::link) struct RailLane {
    lane: Box<dyn Lane>,
    keys: Keys,
    probe: Probe,
    /// Operations that are not posted yet.
    queue: VecDeque<Op>,
    in_flight: u32,
    bytes_in_flight: u64,
    /// When an operation last completed, while any is in flight; `None` until the next poll.
    progress: Option<Duration>,
    counts: MessageCounts,
    /// From the lane's capabilities, for the hot path.
    ordered: bool,
    depth: u32,
    closed: bool,
    // Last: its memory is used by the operations above.
    messages: MessageBuffers,
}

/// Numbers of messages on one lane.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::link::rails) struct MessageCounts {
    /// Ours: posted, and completed.
    sent: u64,
    pub(in crate::link::rails) completed: u64,
    /// The peer's.
    pub(in crate::link::rails) received: u64,
}

/// The result of a receive of a lane.
pub(in crate::link) enum ReceiveOutcome {
    /// No message, and no error.
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
        messages: MessageBuffers,
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
            in_flight: 0,
            bytes_in_flight: 0,
            progress: None,
            counts: MessageCounts::default(),
            closed: false,
        }
    }

    // Operations.

    /// Whether `bytes` more can be queued, with at most `max_in_flight` bytes in flight.
    #[inline]
    pub(in crate::link) fn has_capacity(&self, bytes: u64, max_in_flight: u64) -> bool {
        self.can_queue() && (self.in_flight == 0 || self.bytes_in_flight + bytes <= max_in_flight)
    }

    /// Whether one more operation can be queued.
    #[inline]
    pub(in crate::link) fn can_queue(&self) -> bool {
        self.in_flight < self.depth
    }

    /// The number of operations that can be queued.
    #[inline]
    pub(in crate::link) fn free_entries(&self) -> usize {
        self.depth.saturating_sub(self.in_flight) as usize
    }

    /// Whether operations wait to be posted.
    #[inline]
    pub(in crate::link) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    #[inline]
    pub(in crate::link) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    #[inline]
    pub(in crate::link) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Counts queued operations.
    #[inline]
    pub(in crate::link) fn add(&mut self, count: u32, bytes: u64) {
        if self.in_flight == 0 {
            self.progress = None;
        }
        self.in_flight += count;
        self.bytes_in_flight += bytes;
    }

    /// Counts a completed operation.
    #[inline]
    pub(in crate::link) fn remove(&mut self, bytes: u64) {
        self.in_flight -= 1;
        self.bytes_in_flight -= bytes;
    }

    /// If the peer received this number of messages on an ordered lane, then a write or a read that is queued
    /// now took effect.
    #[inline]
    pub(in crate::link) fn confirmed_at(&self, work: &Work) -> u64 {
        match work {
            Work::Read { .. } => NEVER_CONFIRMED,
            // The next message, if it is received, confirms it.
            _ => self.counts.sent + 1,
        }
    }

    /// As [`RailLane::confirmed_at`], for a message, which is counted.
    #[inline]
    pub(in crate::link) fn message_completed_at(&mut self) -> u64 {
        self.counts.sent += 1;
        self.counts.sent
    }

    /// The send of a message has completed.
    #[inline]
    pub(in crate::link) fn message_completed(&mut self) {
        self.counts.completed += 1;
    }

    #[inline]
    pub(in crate::link) fn push(&mut self, op: Op) {
        self.queue.push_back(op);
    }

    /// Posts the queued operations.
    #[inline]
    pub(in crate::link::rails) fn post_queue(&mut self) {
        if !self.queue.is_empty() {
            self.lane.post(&mut self.queue);
        }
    }

    /// Posts operations directly, and queues those that do not fit.
    #[inline]
    pub(in crate::link) fn post(&mut self, ops: &mut VecDeque<Op>) {
        self.lane.post(ops);
        self.queue.append(ops);
    }

    /// Appends completions; `false` if there is nothing to handle.
    #[inline]
    pub(in crate::link) fn poll(&mut self, now: Duration, done: &mut Vec<Completion>) -> bool {
        let changed = self.lane.poll(done) > 0 || self.progress.is_none();
        if changed {
            self.progress = Some(now);
        }
        changed
    }

    /// Whether operations are in flight and none completed within the timeout. Not for lanes that need the peer's CPU: a busy
    /// peer is not a dead lane.
    pub(in crate::link) fn is_stuck(&self, now: Duration, timeout: Duration) -> bool {
        let still = self.progress.is_some_and(|since| since + timeout <= now);
        self.in_flight > 0 && still && !self.lane.caps().peer_must_poll
    }

    /// Whether an operation completed at this time.
    pub(in crate::link) fn has_progressed(&self, now: Duration) -> bool {
        self.progress == Some(now)
    }

    /// When the lane counts as stuck, unless an operation completes.
    pub(in crate::link::rails) fn next_due(
        &self,
        now: Duration,
        timeout: Duration,
    ) -> Option<Duration> {
        (self.in_flight > 0).then(|| self.progress.unwrap_or(now) + timeout)
    }

    // Messages.

    #[inline]
    pub(in crate::link) fn messages(&self) -> &MessageBuffers {
        &self.messages
    }

    #[inline]
    pub(in crate::link) fn messages_mut(&mut self) -> &mut MessageBuffers {
        &mut self.messages
    }

    /// Posts free slots; `Err` if the lane's receive queue is full. `receives` is a reused buffer.
    #[inline]
    pub(in crate::link::rails) fn refill(
        &mut self,
        receives: &mut VecDeque<Op>,
    ) -> Result<(), &'static str> {
        if !self.messages.should_post() {
            return Ok(());
        }
        self.messages.append_receives(receives, |slot| RECEIVE_BIT | u64::from(slot));
        self.lane.post(receives);
        if !receives.is_empty() {
            receives.drain(..).for_each(|_| self.messages.slot_returned(None));
            self.messages.receive_failed();
            return Err("the lane's receive queue is full");
        }
        Ok(())
    }

    /// A receive has completed.
    pub(in crate::link) fn receive(&mut self, completion: Completion) -> ReceiveOutcome {
        let slot = (completion.op_id & !RECEIVE_BIT) as u32;
        let slice = match completion.work {
            Work::Receive { into: Slices::One(slice) } => Some((slot, slice)),
            _ => None,
        };
        self.messages.slot_returned(slice);
        let (length, imm) = match completion.outcome {
            Ok(Done::Received { length, imm }) => (length, imm),
            Ok(_) => return ReceiveOutcome::Nothing,
            Err(failure) => {
                self.messages.receive_failed();
                return match self.closed {
                    true => ReceiveOutcome::Nothing,
                    false => ReceiveOutcome::Failed(failure),
                };
            }
        };
        self.counts.received += 1;
        // A write with immediate data brings no message: the slot contains an old one.
        let header = imm.is_none().then(|| self.messages.header(slot, length)).flatten();
        match header {
            Some((header, payload)) => ReceiveOutcome::Message { slot, header, payload },
            None => {
                self.messages.free(slot, MessageClass::Internal);
                ReceiveOutcome::Malformed { length }
            }
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

    /// Arms the lane; `false` if there is work to do.
    pub(in crate::link::rails) fn arm(&mut self) -> bool {
        self.queue.is_empty() && self.lane.arm()
    }

    // The end.

    /// Closes the lane. Queued operations are flushed like posted ones.
    pub(in crate::link::rails) fn close(&mut self) {
        self.closed = true;
        self.lane.close();
        self.lane.post(&mut self.queue);
    }

    #[inline]
    pub(in crate::link) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether messages may arrive: also after it is closed, if they wait in a queue that lanes share.
    #[inline]
    pub(in crate::link::rails) fn can_receive(&self) -> bool {
        !self.closed || self.messages.may_have_unexpected()
    }

    /// Whether it is closed and all operations and receives have completed.
    pub(in crate::link::rails) fn has_returned_all(&self) -> bool {
        let receiving = self.messages.has_posted() || self.messages.may_have_unexpected();
        self.closed && self.in_flight == 0 && !receiving
    }

    pub(in crate::link::rails) fn counts(&self) -> MessageCounts {
        self.counts
    }

    #[cfg(test)]
    pub(in crate::link) fn describe(&self) -> String {
        let (in_flight, bytes, queue) = (self.in_flight, self.bytes_in_flight, self.queue.len());
        format!("in flight {in_flight} bytes {bytes} queue {queue} messages {:?}", self.messages)
    }
}

/// Set in the ids of receives.
pub(in crate::link) const RECEIVE_BIT: u64 = 1 << 63;
