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
use crate::link::messages::sent_packets::{SentPacket, SentPackets};
use crate::link::operations::{LaneOpKind, NEVER_CONFIRMED};
use crate::link::protocol::header::{Header, MessageClass};
use crate::op::{Completion, Done, Failure, Op, Slices, Work};
use crate::packets::{Packet, PacketCounts, PacketReceiver};
use crate::region::Slice;
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
    stats: Arc<Stats>,
    /// Operations of the peer that were counted for the link.
    peer_operations: u64,
    /// From the lane's capabilities, for the hot path.
    ordered: bool,
    depth: u32,
    closed: bool,
    // Last: its memory is used by the operations above.
    messages: MessagePath,
}

/// How messages are transferred on a lane.
enum MessagePath {
    /// By sends, into slots of the peer.
    Slots(MessageBuffers),
    /// In packets, if the lane has them.
    Packets {
        sent: SentPackets,
        /// Whether some are not flushed.
        unflushed: bool,
        /// Whether the lane has ended, and all its packets were taken.
        ended: bool,
    },
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
    /// `slots`: `None` for a lane with packets, of at most `max_payload` bytes each and their header.
    pub(in crate::link::rails) fn new(
        mut lane: Box<dyn Lane>,
        slots: Option<MessageBuffers>,
        probe: Probe,
        max_payload: usize,
    ) -> Self {
        let messages = match slots {
            Some(slots) => MessagePath::Slots(slots),
            None => {
                let sent = SentPackets::default();
                MessagePath::Packets { sent, unflushed: false, ended: false }
            }
        };
        if let (MessagePath::Packets { .. }, Some(packets)) = (&messages, lane.packets()) {
            packets.accept(Header::MAX_BYTES + max_payload);
        }
        let caps = lane.caps();
        RailLane {
            stats: lane.stats().clone(),
            peer_operations: 0,
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

    /// Posts the queued operations and packets.
    #[inline]
    pub(in crate::link) fn post_queue(&mut self) {
        if !self.queue.is_empty() {
            self.lane.post(&mut self.queue);
        }
        if let MessagePath::Packets { unflushed: unflushed @ true, .. } = &mut self.messages {
            *unflushed = false;
            if let Some(packets) = self.lane.packets() {
                packets.flush();
            }
        }
    }

    /// Posts operations directly, and queues those that do not fit.
    #[inline]
    pub(in crate::link) fn post(&mut self, ops: &mut VecDeque<Op>) {
        self.lane.post(ops);
        self.queue.append(ops);
    }

    /// Appends completions. If messages travel in packets, gives those that have arrived to the receiver, and returns what has
    /// become of the packets.
    #[inline]
    pub(in crate::link) fn poll(
        &mut self,
        now: Duration,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> Option<PacketCounts> {
        let (counts, mut changed) = match &mut self.messages {
            MessagePath::Slots(_) => {
                self.lane.poll(done);
                (None, false)
            }
            MessagePath::Packets { sent, ended, .. } => {
                let counts = self.lane.packets()?.poll(receiver, done);
                *ended = counts.ended.is_some();
                let before = std::mem::replace(&mut self.counts.received, counts.arrived);
                (Some(counts), counts.arrived != before || counts.delivered != sent.delivered())
            }
        };
        changed |= !done.is_empty() || self.progress.is_none();
        if changed {
            self.progress = Some(now);
        }
        counts
    }

    /// The number of the peer's operations that this end has executed since the last call.
    #[inline]
    pub(in crate::link) fn new_peer_operations(&mut self) -> u64 {
        let all = self.stats.peer_operations();
        all - std::mem::replace(&mut self.peer_operations, all)
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

    /// The slots and send buffers, if messages do not travel in packets.
    #[inline]
    pub(in crate::link) fn slots(&self) -> Option<&MessageBuffers> {
        match &self.messages {
            MessagePath::Slots(slots) => Some(slots),
            MessagePath::Packets { .. } => None,
        }
    }

    #[inline]
    pub(in crate::link) fn slots_mut(&mut self) -> Option<&mut MessageBuffers> {
        match &mut self.messages {
            MessagePath::Slots(slots) => Some(slots),
            MessagePath::Packets { .. } => None,
        }
    }

    /// Whether one more message can be sent.
    #[inline]
    pub(in crate::link) fn has_message_capacity(&self, class: MessageClass) -> bool {
        let has = match &self.messages {
            MessagePath::Slots(slots) => slots.has_capacity(class),
            MessagePath::Packets { sent, .. } => sent.has_capacity(),
        };
        has && self.can_queue()
    }

    /// Posts free slots; `Err` if the lane's receive queue is full. `receives` is a reused buffer.
    #[inline]
    pub(in crate::link::rails) fn refill(
        &mut self,
        receives: &mut VecDeque<Op>,
    ) -> Result<(), &'static str> {
        let MessagePath::Slots(slots) = &mut self.messages else { return Ok(()) };
        if !slots.should_post() {
            return Ok(());
        }
        slots.append_receives(receives, |slot| RECEIVE_BIT | u64::from(slot));
        self.lane.post(receives);
        if !receives.is_empty() {
            receives.drain(..).for_each(|_| slots.slot_returned(None));
            slots.receive_failed();
            return Err("the lane's receive queue is full");
        }
        Ok(())
    }

    /// A receive has completed.
    pub(in crate::link) fn receive(&mut self, completion: Completion) -> ReceiveOutcome {
        let MessagePath::Slots(slots) = &mut self.messages else { return ReceiveOutcome::Nothing };
        let slot = (completion.op_id & !RECEIVE_BIT) as u32;
        let slice = match completion.work {
            Work::Receive { into: Slices::One(slice) } => Some((slot, slice)),
            _ => None,
        };
        slots.slot_returned(slice);
        let (length, imm) = match completion.outcome {
            Ok(Done::Received { length, imm }) => (length, imm),
            Ok(_) => return ReceiveOutcome::Nothing,
            Err(failure) => {
                slots.receive_failed();
                return match self.closed {
                    true => ReceiveOutcome::Nothing,
                    false => ReceiveOutcome::Failed(failure),
                };
            }
        };
        self.counts.received += 1;
        // A write with immediate data brings no message: the slot contains an old one.
        let header = imm.is_none().then(|| slots.header(slot, length)).flatten();
        match header {
            Some((header, payload)) => ReceiveOutcome::Message { slot, header, payload },
            None => {
                slots.free(slot, MessageClass::Internal);
                ReceiveOutcome::Malformed { length }
            }
        }
    }

    // Packets.

    /// Sends a message in a packet, behind the queued operations; `false` if the lane does not take all of these now.
    #[inline]
    pub(in crate::link) fn send_packet(
        &mut self,
        header: Header,
        what: LaneOpKind,
        (body, offset, length): (&[Slice], u64, u64),
    ) -> bool {
        let MessagePath::Packets { sent, unflushed, .. } = &mut self.messages else { return false };
        let (head, own) = header.to_bytes();
        let (offset, length) = (offset as usize, length as usize);
        let packet = Packet { head: &head[..own], body, offset, length };
        let packets = self.lane.packets();
        if !packets.is_some_and(|packets| packets.send(&mut self.queue, packet)) {
            return false;
        }
        *unflushed = true;
        self.counts.sent += 1;
        let (bytes, confirmed_at) = (packet.total() as u64, self.counts.sent);
        sent.push(SentPacket { what, bytes, confirmed_at });
        self.add(1, bytes);
        true
    }

    /// The next message of which the peer's lane has received the packet.
    #[inline]
    pub(in crate::link) fn next_delivered(&mut self, delivered: u64) -> Option<LaneOpKind> {
        let MessagePath::Packets { sent, .. } = &mut self.messages else { return None };
        let SentPacket { what, bytes, .. } = sent.next_delivered(delivered)?;
        self.remove(bytes);
        self.counts.completed += 1;
        Some(what)
    }

    /// The next message of which it is not known whether it was delivered, once the lane has ended.
    pub(in crate::link) fn next_undelivered(&mut self) -> Option<SentPacket> {
        let MessagePath::Packets { sent, .. } = &mut self.messages else { return None };
        let packet = sent.next_undelivered()?;
        self.remove(packet.bytes);
        Some(packet)
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
        !self.closed || self.slots().is_some_and(MessageBuffers::may_have_unexpected)
    }

    /// Whether it is closed and all operations and receives have completed.
    pub(in crate::link::rails) fn has_returned_all(&self) -> bool {
        let receiving = match &self.messages {
            MessagePath::Slots(slots) => slots.has_posted() || slots.may_have_unexpected(),
            MessagePath::Packets { ended, .. } => !ended,
        };
        self.closed && self.in_flight == 0 && !receiving
    }

    pub(in crate::link::rails) fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Sends a packet that is no message of a link.
    #[cfg(test)]
    pub(in crate::link) fn send_raw_packet(&mut self, packet: Packet<'_>) -> bool {
        let Some(packets) = self.lane.packets() else { return false };
        let sent = packets.send(&mut self.queue, packet);
        packets.flush();
        sent
    }

    #[cfg(test)]
    pub(in crate::link) fn describe(&self) -> String {
        let (in_flight, bytes, queue) = (self.in_flight, self.bytes_in_flight, self.queue.len());
        format!("in flight {in_flight} bytes {bytes} queue {queue} slots {:?}", self.slots())
    }
}

/// Set in the ids of receives.
pub(in crate::link) const RECEIVE_BIT: u64 = 1 << 63;
