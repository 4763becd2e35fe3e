//! Outgoing messages, on any rail with capacity, and credits for the peer.

use super::Core;
use crate::link::messages::message_buffers::MessageBuffers;
use crate::link::messages::{Message, SentMessage, UnnumberedMessage};
use crate::link::operations::{LaneOpKind, MultiStepOp};
use crate::link::protocol::control::Control;
use crate::link::protocol::header::{Body, Header, MessageClass};
use crate::link::rails::RailLane;
use crate::op::{Failure, Op, Slices, Work};
use crate::region::Slice;

impl Core {
    pub(super) fn send_all(&mut self, class: MessageClass) {
        while self.send_next(class, None) {}
    }

    /// Sends one message, if there is one and a rail for it; `on`: the rail, if it was chosen already.
    pub(super) fn send_next(&mut self, class: MessageClass, on: Option<u8>) -> bool {
        let max_in_flight = self.config.max_in_flight as u64;
        let Some(rail) = on.or_else(|| self.rails.for_message(class, max_in_flight)) else {
            return false;
        };
        let outgoing = self.messages.outgoing_mut(class);
        if let Some(sequence) = outgoing.next_resend() {
            return self.transmit(rail, class, sequence);
        }
        if !outgoing.may_send() {
            return false;
        }
        let Some(message) = outgoing.message() else { return false };
        let (message, is_last) = self.next_message(message);
        let outgoing = self.messages.outgoing_mut(class);
        if is_last {
            outgoing.pop_unnumbered();
        }
        let sequence = outgoing.assign_number(SentMessage::Part(message));
        self.transmit(rail, class, sequence)
    }

    /// The next message to number, and whether it is the last: a long send has one for each fragment.
    fn next_message(&mut self, message: UnnumberedMessage) -> (Message, bool) {
        let plain = |body| (Message { body, operation: None, payload: 0 }, true);
        let row = match message {
            UnnumberedMessage::OldValue { request, old } => {
                return plain(Body::OldValue { request, old });
            }
            UnnumberedMessage::Send(row)
            | UnnumberedMessage::WriteImm(row)
            | UnnumberedMessage::Atomic(row) => row,
        };
        let limit = self.messages.peer_max_payload();
        let operation = self.operations.get_mut(row);
        operation.map_or_else(|| plain(Body::Void), |found| found.next_message(row, limit))
    }

    /// Sends a message that has its sequence number; `false` if its lane does not take it now, and it waits to be sent again.
    fn transmit(&mut self, rail: u8, class: MessageClass, sequence: u64) -> bool {
        let Some(message) = self.messages.outgoing_mut(class).sent_message(sequence) else {
            return true;
        };
        let Message { body, operation, payload } = *message;
        let operation = operation.and_then(|operation| self.operations.get(operation));
        let payload = match (operation, body) {
            (Some(operation), Body::Fragment { offset, .. }) => {
                (operation.work().local(), offset, payload)
            }
            _ => (&[][..], 0, 0),
        };
        let Some(lane) = self.rails.lane_mut(rail) else { return true };
        let taken = self.messages.inbox_mut().report_taken();
        let header = Header { sequence: sequence as u32, freed: [0; 2], taken, body };
        let what = LaneOpKind::Message { class, sequence };
        let Some(slots) = lane.slots_mut() else {
            let sent = lane.send_packet(header, what, payload);
            if !sent {
                self.resend(class, sequence);
            }
            return sent;
        };
        match slots.write(header, payload) {
            Some(bytes) => self.post_message(rail, bytes, what),
            None => self.fail_link(Failure::Local, "no send buffer for a message"),
        }
        true
    }

    #[inline]
    fn post_message(&mut self, rail: u8, bytes: Slice, what: LaneOpKind) {
        let length = bytes.len() as u64;
        self.post_lane_op(rail, length, Work::Send { from: bytes.into(), imm: None }, what);
    }

    /// Sends a message again with its sequence number; the immediate data of a write only when the write is placed.
    pub(super) fn resend(&mut self, class: MessageClass, sequence: u64) {
        let outgoing = self.messages.outgoing_mut(class);
        if let Some((op, timed)) = outgoing.take_send(sequence) {
            let (body, payload) = (one_fragment(&op), op.work.total() as u64);
            let operation = Some(self.operations.insert(MultiStepOp::sent(op, timed)));
            outgoing.replace(sequence, Message { body, operation, payload });
        }
        let Some(message) = outgoing.sent_message(sequence) else { return };
        let operation = message.operation.and_then(|row| Some((row, self.operations.get(row)?)));
        match operation {
            Some((row, operation)) if operation.has_chunks() => {
                return self.operations.defer_write_imm(row, sequence);
            }
            Some((_, operation)) if operation.has_failed() => message.void(),
            _ => {}
        }
        outgoing.queue_resend(sequence);
    }

    /// A message was delivered: its send buffer is free.
    #[inline]
    pub(super) fn return_send_buffer(&mut self, rail: u8, work: Work) {
        if let Some(lane) = self.rails.lane_mut(rail)
            && let Some(slots) = lane.slots_mut()
            && let Work::Send { from: Slices::One(buffer), .. } = work
        {
            slots.return_buffer(buffer);
        }
    }

    // Credits.

    /// Posts free slots to the lane, and sends credits to a peer that may wait for them.
    #[inline]
    pub(super) fn refill(&mut self, rail: u8) {
        match self.rails.refill(rail) {
            Ok(true) => self.give_credit(rail),
            Ok(false) => {}
            Err(why) => self.fail_rail(rail, why),
        }
    }

    /// As [`Core::refill`], for all rails: a message on one rail may free a slot of another.
    pub(super) fn refill_all(&mut self) {
        for index in 0..self.rails.lane_count() {
            self.refill(self.rails.rail_with_lane(index));
        }
    }

    /// Sends credits to a peer that may wait for them. If the peer has no slot for that on the
    /// lane, because messages of both ends crossed, they are sent over the control connection.
    #[inline]
    pub(super) fn give_credit(&mut self, rail: u8) {
        let slots = self.rails.lane(rail).and_then(RailLane::slots);
        if slots.is_some_and(MessageBuffers::is_credit_due) || self.messages.inbox().is_report_due()
        {
            self.send_credit(rail);
        }
    }

    fn send_credit(&mut self, rail: u8) {
        let entry = self.rails.get_mut(rail);
        let (generation, connected) = (entry.generation(), entry.is_peer_connected());
        let Some(lane) = entry.lane_mut().filter(|lane| connected && !lane.is_closed()) else {
            return;
        };
        let taken = self.messages.inbox_mut().report_taken();
        let header = Header { sequence: 0, freed: [0; 2], taken, body: Body::Credit };
        let can_queue = lane.can_queue();
        let Some(slots) = lane.slots_mut() else {
            if !lane.has_message_capacity(MessageClass::Internal)
                || !lane.send_packet(header, LaneOpKind::Credit, (&[], 0, 0))
            {
                self.messages.inbox_mut().repeat_report();
            }
            return;
        };
        if slots.can_send_credit() && can_queue {
            if let Some(bytes) = slots.write(header, (&[], 0, 0)) {
                self.post_message(rail, bytes, LaneOpKind::Credit);
            }
            return;
        }
        let freed = slots.report_freed();
        self.send_control(&Control::Freed { rail, generation, freed, taken });
    }
}

/// The body of a send's only message.
fn one_fragment(send: &Op) -> Body {
    let imm = match send.work {
        Work::Send { imm, .. } => imm,
        _ => None,
    };
    Body::Fragment { total: send.work.total() as u64, offset: 0, imm }
}
