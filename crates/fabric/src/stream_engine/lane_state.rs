//! The state that the streams of one lane share: operations, receives, credits, grants, and completions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::in_flight::{Operation, Operations};
use crate::grants::Grants;
use crate::lane::Caps;
use crate::op::{Completion, Done, Failure, Op, OpKind, Work};
use crate::packets::{PacketBuffers, PacketCounts, PacketReceiver, ReceivedPackets};
use crate::stats::{OPS_PER_LATENCY_SAMPLE, Stats};

pub(crate) struct LaneState {
    pub(crate) operations: Operations,
    pub(crate) grants: Grants,
    pub(crate) stats: Arc<Stats>,
    pub(super) packets: ReceivedPackets,
    /// For packets that wait for space in a stream, or for their end.
    pub(super) packet_buffers: PacketBuffers,
    /// The number of the peer's packets, and those of ours: sent, and received by the peer's lane; and the one that is timed.
    packets_arrived: u64,
    packets_sent: u64,
    packets_delivered: u64,
    timed_packet: Option<(u64, Instant)>,
    /// Receives posted and not used yet, in order.
    receives: VecDeque<Op>,
    /// Numbers of receives: posted in all, used, and reported to the peer.
    posted: u32,
    used: u32,
    reported: u32,
    /// Operations that wait for one of the peer's receives, and since when the first waits.
    pub(super) waiting: VecDeque<u32>,
    waiting_since: Option<Instant>,
    /// Numbers of the peer's receives: posted in all, and used by us.
    peer_posted: u32,
    peer_used: u32,
    receive_timeout: Duration,
    done: Vec<Completion>,
    posted_ops: u64,
    dead: Option<Failure>,
}

impl LaneState {
    pub(crate) fn new(receive_timeout: Duration) -> Self {
        LaneState {
            operations: Operations::default(),
            grants: Grants::default(),
            stats: Arc::default(),
            packets: ReceivedPackets::default(),
            packet_buffers: PacketBuffers::default(),
            packets_arrived: 0,
            packets_sent: 0,
            packets_delivered: 0,
            timed_packet: None,
            receives: VecDeque::new(),
            posted: 0,
            used: 0,
            reported: 0,
            waiting: VecDeque::new(),
            waiting_since: None,
            peer_posted: 0,
            peer_used: 0,
            receive_timeout,
            done: Vec::new(),
            posted_ops: 0,
            dead: None,
        }
    }

    /// Why the lane is dead.
    #[inline]
    pub(crate) fn dead(&self) -> Option<Failure> {
        self.dead
    }

    /// The start time of this operation, if it is one of those that are timed.
    #[inline]
    pub(crate) fn start_clock(&mut self) -> Option<Instant> {
        self.posted_ops += 1;
        self.posted_ops.is_multiple_of(OPS_PER_LATENCY_SAMPLE).then(Instant::now)
    }

    /// Whether there is capacity for an operation.
    #[inline]
    pub(crate) fn has_capacity(&self, op: &Op, caps: &Caps) -> bool {
        match op.work {
            Work::Receive { .. } => self.receives.len() < caps.receives,
            _ => self.operations.count() < caps.depth,
        }
    }

    // Our receives.

    pub(crate) fn post_receive(&mut self, op: Op) {
        self.receives.push_back(op);
        self.posted = self.posted.wrapping_add(1);
    }

    pub(super) fn take_receive(&mut self) -> Result<Op, Failure> {
        // The peer counts our receives and must not send without one.
        let op = self.receives.pop_front().ok_or(Failure::ProtocolError)?;
        self.used = self.used.wrapping_add(1);
        Ok(op)
    }

    /// Requeues a receive whose message did not arrive completely.
    pub(super) fn return_receive(&mut self, op: Op) {
        match self.dead {
            Some(_) => self.complete(op, Err(Failure::Flushed)),
            None => self.receives.push_front(op),
        }
    }

    /// The number of posted receives, sent with every frame.
    pub(super) fn credit(&self) -> u32 {
        self.posted
    }

    pub(super) fn reported(&mut self, credit: u32) {
        if credit.wrapping_sub(self.reported) < i32::MAX as u32 {
            self.reported = credit;
        }
    }

    /// Whether to report new receives to the peer: if it knows of at most half of them.
    pub(super) fn must_report(&self) -> bool {
        // The peer may have used receives that it learned of from a frame that is not completely sent.
        let known = self.reported.wrapping_sub(self.used).cast_signed().max(0).cast_unsigned();
        let available = self.posted.wrapping_sub(self.used);
        known < available && known <= available / 2
    }

    // The peer's receives.

    pub(super) fn peer_posted(&mut self, credit: u32) -> Result<(), Failure> {
        let more = credit.wrapping_sub(self.peer_posted);
        // Streams may overtake each other, so an older count is valid.
        if more < i32::MAX as u32 {
            self.peer_posted = credit;
        }
        let left = self.peer_posted.wrapping_sub(self.peer_used);
        if left > MAX_RECEIVES { Err(Failure::ProtocolError) } else { Ok(()) }
    }

    /// Uses one of the peer's receives, if there is one.
    #[inline]
    pub(super) fn use_peer_receive(&mut self) -> bool {
        if self.peer_posted == self.peer_used {
            return false;
        }
        self.peer_used = self.peer_used.wrapping_add(1);
        true
    }

    pub(super) fn wait_for_receive(&mut self, id: u32) {
        self.waiting.push_back(id);
        self.waiting_since.get_or_insert_with(Instant::now);
    }

    /// The next waiting operation for which there is a receive now.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        if self.waiting.is_empty() || !self.use_peer_receive() {
            return None;
        }
        // The timeout of the next one starts now, since the peer made progress.
        self.waiting_since = (self.waiting.len() > 1).then(Instant::now);
        self.waiting.pop_front()
    }

    /// When the first waiting operation times out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting_since.and_then(|since| since.checked_add(self.receive_timeout))
    }

    /// The operation that has timed out.
    pub(super) fn timed_out(&self) -> Option<u32> {
        let timed_out = self.waiting_since?.elapsed() >= self.receive_timeout;
        self.waiting.front().copied().filter(|_| timed_out)
    }

    // Completions.

    #[inline]
    pub(crate) fn complete(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { op_id: op.op_id, outcome, work: op.work };
        self.stats.count(&completion);
        self.done.push(completion);
    }

    /// The peer has executed a counted frame of ours.
    #[inline]
    pub(super) fn acknowledged(&mut self, id: u32) {
        match id {
            PACKET => self.packet_delivered(),
            id => self.complete_operation(id, Done::Placed),
        }
    }

    #[inline]
    pub(super) fn complete_operation(&mut self, id: u32, done: Done) {
        if let Some(Operation { op, started, .. }) = self.operations.end(id) {
            if let Some(started) = started {
                self.stats.add_latency(started.elapsed());
            }
            self.complete(op, Ok(done));
        }
    }

    /// Ends the lane. Operations in flight fail with `others`, and `cause` with the reason.
    pub(crate) fn fail(&mut self, cause: Option<u32>, reason: Failure, others: Failure) {
        if self.dead.is_some() {
            return;
        }
        self.dead = Some(reason);
        self.stats.set_ended(reason);
        self.waiting.clear();
        self.waiting_since = None;
        let cause = cause.map(|id| self.operations.operation_of(id));
        if let Some(operation) = cause.and_then(|id| self.operations.end(id)) {
            self.complete(operation.op, Err(reason));
        }
        let operations: Vec<Operation> = self.operations.drain().collect();
        for operation in operations {
            self.complete(operation.op, Err(others));
        }
        while let Some(op) = self.receives.pop_front() {
            self.complete(op, Err(others));
        }
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.dead.is_none()
    }

    /// Whether there is something for the caller: completions, packets, or the end of a lane that has no receives to return.
    pub(crate) fn has_done(&self) -> bool {
        let unnoticed_end = self.packets.are_accepted() && self.dead.is_some();
        !self.done.is_empty() || !self.packets.is_empty() || unnoticed_end
    }

    #[inline]
    pub(super) fn packet_counts(&self) -> PacketCounts {
        let LaneState { packets_arrived, packets_delivered, dead, .. } = *self;
        PacketCounts { arrived: packets_arrived, delivered: packets_delivered, ended: dead }
    }

    /// A packet of this length is sent.
    #[inline]
    pub(super) fn packet_sent(&mut self, length: usize) {
        self.packets_sent += 1;
        self.stats.succeeded(OpKind::Send, length as u64);
        if let Some(started) = self.start_clock() {
            self.timed_packet.get_or_insert((self.packets_sent, started));
        }
    }

    #[inline]
    fn packet_delivered(&mut self) {
        self.packets_delivered += 1;
        if let Some((_, started)) =
            self.timed_packet.take_if(|(number, _)| *number == self.packets_delivered)
        {
            self.stats.add_latency(started.elapsed());
        }
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn packet_arrived(&mut self, packet: &[u8], receiver: &mut dyn PacketReceiver) {
        self.packets_arrived += 1;
        self.stats.succeeded(OpKind::Receive, packet.len() as u64);
        receiver.packet(packet);
    }

    pub(crate) fn accept_packets(&mut self, max_length: usize) {
        self.packets.accept(max_length);
    }

    #[inline]
    pub(crate) fn take_done(&mut self, into: &mut Vec<Completion>) -> usize {
        let count = self.done.len();
        match into.is_empty() {
            true => std::mem::swap(into, &mut self.done),
            false => into.append(&mut self.done),
        }
        count
    }
}

/// In the place of an operation's id: a frame that is a packet.
pub(super) const PACKET: u32 = u32::MAX;
/// More receives than a well-behaved peer posts.
const MAX_RECEIVES: u32 = 1 << 20;
