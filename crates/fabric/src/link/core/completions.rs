//! Completions of lanes, and what each means for the caller's operation.

use super::Core;
use super::inbound_packets::InboundPackets;
use crate::link::messages::sent_packets::SentPacket;
use crate::link::messages::{Delivered, UnnumberedMessage};
use crate::link::operations::{LaneOp, LaneOpKind, NextStep, restore_op};
use crate::link::protocol::header::MessageClass;
use crate::link::rails::{RECEIVE_BIT, RailLane, UnconfirmedOp};
use crate::op::{Completion, Done, Failure, Slices, Work};
use crate::packets::PacketCounts;

impl Core {
    #[inline]
    pub(super) fn poll_rail(&mut self, rail: u8) {
        let Core { rails, messages, completions, packets, now, .. } = self;
        let Some(lane) = rails.lane_mut(rail) else { return };
        let mut done = completions.take_lane_buffer();
        let mut inbound = InboundPackets::new(messages, completions, packets);
        let counts = lane.poll(*now, &mut inbound, &mut done);
        let peer_operations = lane.new_peer_operations();
        if !done.is_empty() {
            self.lane_completed(rail, done);
        } else {
            completions.return_lane_buffer(done);
        }
        // Before it is up, they are the peer's probe.
        if peer_operations > 0 && self.rails.get(rail).is_up() {
            self.completions.stats().add_peer_operations(peer_operations);
        }
        match counts {
            Some(counts) => self.handle_packets(rail, counts),
            None => self.refill(rail),
        }
    }

    /// Handles what a lane has completed.
    fn lane_completed(&mut self, rail: u8, done: Vec<Completion>) {
        let before = self.completions.append(done);
        let rest = self.finish_whole(rail, before);
        if rest < self.completions.buffer().len() {
            self.dispatch(rail, rest);
        }
    }

    /// Handles what has become of the packets that were sent, and those that have arrived and were kept.
    #[inline]
    fn handle_packets(&mut self, rail: u8, counts: PacketCounts) {
        while let Some(what) =
            self.rails.lane_mut(rail).and_then(|lane| lane.next_delivered(counts.delivered))
        {
            self.message_delivered(what);
        }
        if !self.packets.arrived.is_empty() {
            self.receive_kept(rail);
        }
        if let Some(failure) = counts.ended {
            self.packets_ended(rail, failure);
        }
        if self.messages.inbox().is_report_due() {
            self.give_credit(rail);
        }
    }

    fn receive_kept(&mut self, rail: u8) {
        let mut arrived = std::mem::take(&mut self.packets.arrived);
        for bytes in arrived.drain(..) {
            self.receive_packet(rail, bytes);
        }
        self.packets.arrived = arrived;
    }

    /// A lane with packets has ended: what became of the undelivered ones is decided when it is fenced.
    #[cold]
    fn packets_ended(&mut self, rail: u8, failure: Failure) {
        let is_closed = self.rails.lane(rail).is_some_and(RailLane::is_closed);
        if !is_closed {
            self.lane_failed(rail, failure);
        }
        while let Some(SentPacket { what, bytes, confirmed_at }) =
            self.rails.lane_mut(rail).and_then(RailLane::next_undelivered)
        {
            let lane_op = LaneOp { rail, bytes, confirmed_at, what };
            let work = Work::Send { from: Slices::EMPTY, imm: None };
            self.rails.get_mut(rail).lose(UnconfirmedOp {
                lane_op,
                failure: Failure::Flushed,
                work,
            });
        }
    }

    /// Handles completions that are not whole operations of the caller.
    fn dispatch(&mut self, rail: u8, from: usize) {
        let mut batch = self.completions.take_batch(from);
        for completion in batch.drain(..) {
            match completion.op_id & RECEIVE_BIT {
                0 => self.complete(rail, completion),
                _ => self.receive(rail, completion),
            }
        }
        self.completions.return_lane_buffer(batch);
    }

    #[inline]
    fn complete(&mut self, rail: u8, completion: Completion) {
        let Completion { op_id, outcome, work } = completion;
        let Some(lane_op) = self.operations.take_lane_op(op_id as u32) else { return };
        self.completions.stop_time(op_id as u32, outcome.is_ok());
        if let Some(lane) = self.rails.lane_mut(rail) {
            lane.remove(lane_op.bytes);
            if outcome.is_ok() && lane_op.what.is_send() {
                lane.message_completed();
            }
        }
        match outcome {
            Ok(_) => self.took_effect(rail, lane_op, work),
            Err(failure) => self.lost(rail, UnconfirmedOp { lane_op, failure, work }),
        }
    }

    /// A lane's operation took effect.
    #[inline]
    pub(super) fn took_effect(&mut self, rail: u8, lane_op: LaneOp, work: Work) {
        match lane_op.what {
            LaneOpKind::Whole { op_id, window } => {
                self.completions.finish(restore_op(op_id, window, work), Ok(Done::Placed));
            }
            LaneOpKind::Chunk(chunk) => {
                if let Some(operation) = self.operations.get_mut(chunk.operation) {
                    operation.chunk_placed();
                }
                self.progress(chunk.operation);
            }
            LaneOpKind::Credit | LaneOpKind::Message { .. } => {
                self.return_send_buffer(rail, work);
                self.message_delivered(lane_op.what);
            }
            LaneOpKind::Probe => self.probe_step_done(rail),
        }
    }

    /// The peer's end of a lane has received a message.
    #[inline]
    fn message_delivered(&mut self, what: LaneOpKind) {
        let LaneOpKind::Message { class, sequence } = what else { return };
        let outgoing = self.messages.outgoing_mut(class);
        if let Some((send, timed)) = outgoing.oldest_send_delivered(sequence) {
            return self.completions.finish_timed(send, Ok(Done::Placed), timed);
        }
        match outgoing.delivered(sequence) {
            Delivered::Send(op, timed) => {
                self.completions.finish_timed(op, Ok(Done::Placed), timed);
            }
            Delivered::Part(row) => {
                if let Some(operation) = self.operations.get_mut(row) {
                    operation.message_delivered();
                }
                self.progress(row);
            }
            Delivered::Nothing => {}
        }
    }

    /// A lane's operation failed or has an unknown outcome: that is decided when the lane is fenced.
    #[cold]
    fn lost(&mut self, rail: u8, lost: UnconfirmedOp) {
        let failure = lost.failure;
        if failure == Failure::Unsupported {
            return self.unsupported(lost);
        }
        self.rails.get_mut(rail).lose(lost);
        self.lane_failed(rail, failure);
    }

    fn unsupported(&mut self, lost: UnconfirmedOp) {
        let UnconfirmedOp { lane_op, failure, work } = lost;
        match lane_op.what {
            LaneOpKind::Whole { op_id, window } => {
                self.completions.finish(restore_op(op_id, window, work), Err(failure));
            }
            LaneOpKind::Chunk(chunk) => self.abandon(&chunk, failure),
            LaneOpKind::Message { .. } | LaneOpKind::Credit => {
                self.fail_link(Failure::Local, "the lane does not support the link's messages");
            }
            LaneOpKind::Probe => {
                self.fail_rail(lane_op.rail, "the lane does not support the probe")
            }
        }
    }

    /// Finishes an operation, or starts its next step, once its bytes are placed.
    pub(super) fn progress(&mut self, row: u32) {
        let Some(operation) = self.operations.get(row).filter(|f| f.is_placed()) else { return };
        let next = operation.next();
        // Immediate data that waited for these bytes may be sent again.
        if let Some(sequence) = self.operations.take_deferred_write_imm(row) {
            return self.resend(MessageClass::Caller, sequence);
        }
        match next {
            NextStep::Wait => {}
            NextStep::WriteImm => self.queue_write_imm(row),
            NextStep::Finish(outcome) => self.finish_operation(row, outcome),
        }
    }

    /// Queues the immediate data of a write.
    pub(super) fn queue_write_imm(&mut self, row: u32) {
        if let Some(operation) = self.operations.get_mut(row) {
            operation.start_write_imm();
            self.messages.push(UnnumberedMessage::WriteImm(row));
        }
    }

    pub(super) fn finish_operation(&mut self, row: u32, outcome: Result<Done, Failure>) {
        if let Some(operation) = self.operations.remove(row) {
            let (op, timed) = operation.into_op();
            self.completions.finish_timed(op, outcome, timed);
        }
    }
}

/// The reason why a lane died, as text.
pub(super) fn cause(failure: Failure) -> &'static str {
    match failure {
        Failure::PeerGone => "no answer from the peer: its cable, port or process is down",
        Failure::Access => "the peer refused an access: the region may be deregistered",
        Failure::Local => "the device failed",
        Failure::NotReady => "the peer had posted no receive",
        Failure::ProtocolError => "the peer violated the lane's protocol",
        Failure::TooLong => "a message was longer than its receive",
        Failure::Flushed | Failure::Unknown | Failure::Unsupported => {
            "the queue was closed at this end"
        }
    }
}
