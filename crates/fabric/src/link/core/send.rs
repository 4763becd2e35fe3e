//! Messages go out, by whichever rail has room; and what there is room for again is reported to the peer.

use super::Core;
use crate::link::messages::{Draft, Message};
use crate::link::operations::PartKind;
use crate::link::protocol::control::Control;
use crate::link::protocol::header::{Body, Header, Stream};
use crate::op::{Failure, Pieces, Work};
use crate::region::Slice;

impl Core {
    pub(super) fn send_all(&mut self, stream: Stream) {
        while self.send_next(stream, None) {}
    }

    /// Sends one message, if there is one, and a rail for it; `on` one that was chosen already.
    pub(super) fn send_next(&mut self, stream: Stream, on: Option<u8>) -> bool {
        let window = self.config.window as u64;
        let Some(rail) = on.or_else(|| self.rails.for_message(stream, window)) else {
            return false;
        };
        let outgoing = self.messages.outgoing_mut(stream);
        if let Some(sequence) = outgoing.next_again() {
            self.launch(rail, stream, sequence);
            return true;
        }
        if !outgoing.may_number() {
            return false;
        }
        let Some(draft) = outgoing.draft() else { return false };
        let (message, over) = self.write(draft);
        let outgoing = self.messages.outgoing_mut(stream);
        if over {
            outgoing.drop_draft();
        }
        let sequence = outgoing.number(message);
        self.launch(rail, stream, sequence);
        true
    }

    /// The next message of a draft, and whether that is all of it.
    fn write(&mut self, draft: Draft) -> (Message, bool) {
        let plain = |body| (Message { body, operation: None, payload: 0 }, true);
        let number = match draft {
            Draft::Old { request, old } => return plain(Body::Old { request, old }),
            Draft::Send(number) | Draft::Notice(number) | Draft::Change(number) => number,
        };
        let limit = self.messages.peer_limit();
        let operation = self.operations.get_mut(number);
        operation.map_or_else(|| plain(Body::Void), |found| found.next_message(number, limit))
    }

    /// Sends one that has its number.
    fn launch(&mut self, rail: u8, stream: Stream, sequence: u64) {
        let Some(message) = self.messages.outgoing_mut(stream).sent(sequence) else { return };
        let Message { body, operation, payload } = *message;
        let operation = operation.and_then(|operation| self.operations.get(operation));
        let payload = match (operation, body) {
            (Some(operation), Body::Part { offset, .. }) => {
                (operation.work().local(), offset, payload)
            }
            _ => (&[][..], 0, 0),
        };
        let Some(lane) = self.rails.lane_mut(rail) else { return };
        let taken = self.messages.inbox_mut().report_taken();
        let header = Header { sequence: sequence as u32, freed: [0; 2], taken, body };
        match lane.messages_mut().write(header, payload) {
            Some(bytes) => self.put_message(rail, bytes, PartKind::Message { stream, sequence }),
            None => self.fail_link(Failure::Local, "a message was sent without a place for it"),
        }
    }

    #[inline]
    fn put_message(&mut self, rail: u8, bytes: Slice, what: PartKind) {
        let length = bytes.len() as u64;
        self.put(rail, length, Work::Send { from: bytes.into(), imm: None }, what);
    }

    /// A message goes again under its number; the notice of a write only when the write is placed.
    pub(super) fn message_again(&mut self, stream: Stream, sequence: u64) {
        let outgoing = self.messages.outgoing_mut(stream);
        let Some(message) = outgoing.sent(sequence) else { return };
        let operation =
            message.operation.and_then(|number| Some((number, self.operations.get(number)?)));
        match operation {
            Some((number, operation)) if operation.has_pieces() => {
                return self.operations.hold(number, sequence);
            }
            Some((_, operation)) if operation.has_failed() => message.void(),
            _ => {}
        }
        outgoing.send_again(sequence);
    }

    /// A message has arrived: its place is free.
    #[inline]
    pub(super) fn give_back(&mut self, rail: u8, work: Work) {
        if let Some(lane) = self.rails.lane_mut(rail)
            && let Work::Send { from: Pieces::One(place), .. } = work
        {
            lane.messages_mut().give_back(place);
        }
    }

    // Room for the peer's.

    /// Gives the lane its free slots back, and reports that to a peer that may wait for them.
    #[inline]
    pub(super) fn refill(&mut self, rail: u8) {
        match self.rails.refill(rail) {
            Ok(true) => self.give_credit(rail),
            Ok(false) => {}
            Err(why) => self.fail_rail(rail, why),
        }
    }

    /// As [`Core::refill`], for all rails: what frees a slot of one may come by another.
    pub(super) fn refill_all(&mut self) {
        for place in 0..self.rails.live_count() {
            self.refill(self.rails.live(place));
        }
    }

    /// Reports to a peer that may wait for it what there is room for again. Where it has no room to receive that by the
    /// lane, because messages of both ends crossed, by the control connection.
    #[inline]
    fn give_credit(&mut self, at: u8) {
        let rail = self.rails.get_mut(at);
        let (generation, connected) = (rail.generation(), rail.is_peer_connected());
        let Some(lane) = rail.lane_mut() else { return };
        let owes = lane.messages().owes_credit() || self.messages.inbox().owes_report();
        if !owes || !connected {
            return;
        }
        let taken = self.messages.inbox_mut().report_taken();
        if lane.messages().has_room_for_credit() && lane.has_place() {
            let header = Header { sequence: 0, freed: [0; 2], taken, body: Body::Credit };
            if let Some(bytes) = lane.messages_mut().write(header, (&[], 0, 0)) {
                self.put_message(at, bytes, PartKind::Credit);
            }
            return;
        }
        let freed = lane.messages_mut().report_freed();
        self.send_control(&Control::Freed { rail: at, generation, freed, taken });
    }
}
