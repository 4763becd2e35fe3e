//! Messages of a link: out by whichever rail has room, in by any, each taking effect once.

use super::complete::cause;
use super::{Core, RECEIVE};
use crate::link::messages::inbox::{InboxMessage, Place, Step};
use crate::link::messages::incoming::Turn;
use crate::link::messages::message_queue::Payload;
use crate::link::messages::outgoing::{Draft, Message};
use crate::link::operations::operation::{Tail, runs};
use crate::link::operations::part::PartKind;
use crate::link::protocol::control::Control;
use crate::link::protocol::header::{Body, Change, Header, Stream};
use crate::op::{Completion, Done, Failure, Pieces, Work};
use crate::region::Slice;

impl Core {
    // Out.

    pub(in crate::link) fn send_all(&mut self, stream: Stream) {
        while self.send_next(stream, None) {}
    }

    /// Sends one message, if there is one, and a rail for it; `on` one that was chosen already.
    pub(in crate::link) fn send_next(&mut self, stream: Stream, on: Option<u8>) -> bool {
        let Some(rail) = on.or_else(|| self.rail_for_message(stream)) else { return false };
        if let Some(sequence) = self.outgoing[stream as usize].next_again() {
            self.launch(rail, stream, sequence);
            return true;
        }
        if !self.outgoing[stream as usize].may_number() {
            return false;
        }
        let Some(draft) = self.outgoing[stream as usize].draft() else { return false };
        let (message, over) = self.write(draft);
        if over {
            self.outgoing[stream as usize].drop_draft();
        }
        let sequence = self.outgoing[stream as usize].number(message);
        self.launch(rail, stream, sequence);
        true
    }

    /// What a draft says next, and whether that is all of it.
    fn write(&mut self, draft: Draft) -> (Message, bool) {
        let plain = |body| (Message { body, operation: None, payload: 0 }, true);
        let number = match draft {
            Draft::Old { request, old } => return plain(Body::Old { request, old }),
            Draft::Send(number) | Draft::Notice(number) | Draft::Change(number) => number,
        };
        let room = self.their_room;
        let Some(operation) = self.operations.get_mut(number) else { return plain(Body::Void) };
        operation.begun = true;
        match &operation.op.work {
            Work::Send { imm, .. } => {
                let (total, offset) = (operation.total, operation.cut);
                let length = (total - offset).min(room);
                operation.cut += length;
                operation.messages += 1;
                let body = Body::Part { total, offset, imm: *imm };
                let message = Message { body, operation: Some(number), payload: length };
                (message, operation.cut == total)
            }
            Work::FetchAdd { at, add, .. } => plain(change(number, at, Change::Add(*add))),
            Work::CompareSwap { at, expect, new, .. } => {
                plain(change(number, at, Change::Swap { expect: *expect, new: *new }))
            }
            Work::Write { imm, .. } => {
                let body = Body::Notice { length: operation.total, imm: imm.unwrap_or(0) };
                (Message { body, operation: Some(number), payload: 0 }, true)
            }
            Work::Read { .. } | Work::Receive { .. } => plain(Body::Void),
        }
    }

    /// The active rail with room and the least to do.
    fn rail_for_message(&self, stream: Stream) -> Option<u8> {
        let window = self.config.window as u64;
        let load = |rail: u8| {
            let rail = &self.rails[usize::from(rail)];
            let connection = rail.connection.as_ref()?;
            let has_room =
                connection.messages.has_room(stream) && connection.out < connection.depth;
            // Behind much else a message would wait long.
            let load = (connection.bytes_out.min(window) + 64 * u64::from(connection.out))
                / u64::from(rail.plan.weight);
            has_room.then_some(load)
        };
        let rails = self.active.iter().filter_map(|rail| Some((load(*rail)?, *rail)));
        rails.min().map(|(_, rail)| rail)
    }

    /// Sends one that has its number.
    fn launch(&mut self, rail: u8, stream: Stream, sequence: u64) {
        let Some(message) = self.outgoing[stream as usize].sent(sequence) else { return };
        let Message { body, operation, payload } = *message;
        let operation = operation.and_then(|operation| self.operations.get(operation));
        let payload = match (operation, body) {
            (Some(operation), Body::Part { offset, .. }) => {
                (operation.op.work.local(), offset, payload)
            }
            _ => (&[][..], 0, 0),
        };
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else { return };
        let taken = self.inbox.tell();
        let header = Header { sequence: sequence as u32, freed: [0; 2], taken, body };
        match connection.messages.write(header, payload) {
            Some(bytes) => self.put_message(rail, bytes, PartKind::Message { stream, sequence }),
            None => self.fail_link(Failure::Local, "a message was sent without a place for it"),
        }
    }

    #[inline]
    fn put_message(&mut self, rail: u8, bytes: Slice, what: PartKind) {
        let length = bytes.len() as u64;
        self.put(rail, length, Work::Send { from: bytes.into(), imm: None }, what);
    }

    /// Gives the lane its free slots back, and says so to a peer that may wait for them.
    #[inline]
    pub(in crate::link) fn refill(&mut self, rail: u8) {
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else { return };
        if connection.closed {
            return;
        }
        if !connection.messages.has_idle() {
            return self.give_credit(rail);
        }
        let receives = &mut self.receives;
        connection.messages.receives(receives, |slot| RECEIVE | u64::from(slot));
        connection.lane.post(receives);
        if !receives.is_empty() {
            receives.drain(..).for_each(|_| connection.messages.returned(None));
            return self.die(rail, "the lane has no room for its receives");
        }
        self.give_credit(rail);
    }

    /// Says to a peer that may wait for it what there is room for again. Where it has no room to hear that by
    /// the lane, because messages of both ends crossed, by the control connection.
    #[inline]
    fn give_credit(&mut self, rail: u8) {
        let this = &mut self.rails[usize::from(rail)];
        let Some(connection) = this.connection.as_mut().filter(|connection| !connection.closed)
        else {
            return;
        };
        if !(connection.messages.owes_credit() || self.inbox.owes()) || !this.making.heard {
            return;
        }
        let taken = self.inbox.tell();
        if connection.messages.has_room_for_credit() && connection.out < connection.depth {
            let header = Header { sequence: 0, freed: [0; 2], taken, body: Body::Credit };
            if let Some(bytes) = connection.messages.write(header, (&[], 0, 0)) {
                self.put_message(rail, bytes, PartKind::Credit);
            }
            return;
        }
        let (generation, freed) = (this.generation, connection.messages.tell());
        self.say(&Control::Freed { rail, generation, freed, taken });
    }

    /// As [`Core::refill`], for all rails: what frees a slot of one may come by another.
    pub(in crate::link) fn refill_all(&mut self) {
        for at in 0..self.live.len() {
            self.refill(self.live[at]);
        }
    }

    /// What the peer has room for again; `false` if that cannot be.
    pub(in crate::link) fn hear_freed(&mut self, rail: u8, freed: [u32; 2], taken: u32) -> bool {
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else { return true };
        connection.messages.peer_freed(freed)
            && self.outgoing[Stream::Messages as usize].taken(taken)
    }

    // In.

    pub(in crate::link) fn receive(&mut self, rail: u8, completion: Completion) {
        let slot = (completion.token & !RECEIVE) as u32;
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else { return };
        let slice = match completion.work {
            Work::Receive { into: Pieces::One(slice) } => Some((slot, slice)),
            _ => None,
        };
        connection.messages.returned(slice);
        let (length, imm) = match completion.outcome {
            Ok(Done::Received { length, imm }) => (length, imm),
            Ok(_) => return,
            Err(_) if connection.closed => return,
            Err(failure) => return self.die(rail, cause(failure)),
        };
        connection.received += 1;
        // The number of a lane's write comes with no message: what lies in the slot then is an old one.
        let header = imm.is_none().then(|| connection.messages.header(slot, length)).flatten();
        match header.filter(|(header, _)| self.hear_freed(rail, header.freed, header.taken)) {
            Some((header, payload)) => self.take_in(rail, slot, &header, payload),
            None => {
                let name = self.rails[usize::from(rail)].name(self.leads);
                let why = format!("a malformed message of {length} bytes by {name}");
                self.fail_link(Failure::ProtocolError, &why);
            }
        }
    }

    fn take_in(&mut self, rail: u8, slot: u32, header: &Header, payload: Payload) {
        let stream = header.body.stream();
        if header.body == Body::Credit {
            return self.free(rail, slot, stream);
        }
        match self.incoming[stream as usize].turn(header.sequence) {
            Turn::Now => {
                self.take_effect(header.body, Place::Slot { rail, slot, payload });
                while let Some((header, payload)) = self.incoming[stream as usize].next_early() {
                    self.take_effect(header.body, Place::Kept(payload));
                }
            }
            Turn::Later => {
                let connection = self.rails[usize::from(rail)].connection.as_ref();
                let payload =
                    connection.map(|connection| connection.messages.payload(slot, payload));
                self.incoming[stream as usize].keep(*header, payload.unwrap_or_default());
                self.free(rail, slot, stream);
                let kept = self.incoming[stream as usize].early() + self.inbox.kept();
                if kept > MAX_KEPT {
                    let why = "the peer sends more than it may before it is taken";
                    self.fail_link(Failure::ProtocolError, why);
                }
            }
            Turn::Again => self.free(rail, slot, stream),
            Turn::ProtocolError => {
                self.fail_link(
                    Failure::ProtocolError,
                    "a message of the peer's is far ahead of its turn",
                );
            }
        }
    }

    fn take_effect(&mut self, body: Body, place: Place) {
        match body {
            Body::Part { .. } | Body::Notice { .. } | Body::Void => {
                if let Some((receive, done)) = self.inbox.take_at_once(body, place.length()) {
                    self.copy(&place, receive.work.local(), 0);
                    self.release(place, Stream::Messages);
                    return self.completions.finish(receive, Ok(done));
                }
                self.inbox.push(InboxMessage { body, place });
                return self.deliver();
            }
            Body::Change { request, region, offset, change } => {
                let old = self.granted.word(region, offset).map(|word| {
                    let memory = word.region().memory();
                    match change {
                        Change::Add(add) => memory.fetch_add(word.offset(), add),
                        Change::Swap { expect, new } => {
                            memory.compare_swap(word.offset(), expect, new)
                        }
                    }
                });
                let notes = &mut self.outgoing[Stream::Control as usize];
                notes.push(Draft::Old { request, old });
                if notes.drafts() > MAX_ANSWERS {
                    let why = "the peer asks for more atomic operations than a link has";
                    self.fail_link(Failure::ProtocolError, why);
                }
            }
            Body::Old { request, old } => self.answered(request, old),
            Body::Credit => {}
        }
        self.release(place, Stream::Control);
    }

    /// An atomic operation of ours is over.
    fn answered(&mut self, number: u32, old: Option<u64>) {
        let operation = self.operations.get(number).filter(|f| f.tail == Tail::Answer && f.begun);
        let Some(operation) = operation else {
            return self.fail_link(Failure::ProtocolError, "the peer answers what was not asked");
        };
        if let (Some(old), [place]) = (old, operation.op.work.local()) {
            place.region().memory().store(place.offset(), old);
        }
        self.finish_flight(number, old.map(Done::Old).ok_or(Failure::Access));
    }

    /// Messages into receives, as long as there are both.
    #[inline]
    pub(in crate::link) fn deliver(&mut self) {
        loop {
            let step = match self.inbox.step() {
                Step::Skip(message) => {
                    self.release(message.place, Stream::Messages);
                    continue;
                }
                Step::Fill { from } => {
                    let copied = self.inbox.first().map(|(receive, message)| {
                        self.copy(&message.place, receive.work.local(), from)
                    });
                    match self.inbox.filled(copied.unwrap_or(0)) {
                        Step::Nothing => {
                            if let Some(message) = self.inbox.pop_message() {
                                self.release(message.place, Stream::Messages);
                            }
                            continue;
                        }
                        step => step,
                    }
                }
                step => step,
            };
            match step {
                Step::Nothing | Step::Fill { .. } | Step::Skip(_) => return,
                Step::Over(receive, outcome, message) => {
                    if let Some(message) = message {
                        self.release(message.place, Stream::Messages);
                    }
                    self.completions.finish(receive, outcome);
                }
                Step::ProtocolError => {
                    return self
                        .fail_link(Failure::ProtocolError, "the parts of a message do not fit");
                }
            }
        }
    }

    /// Copies a message into a receive, from an offset on; says how much.
    fn copy(&self, place: &Place, into: &[Slice], from: u64) -> u64 {
        match place {
            Place::Slot { rail, slot, payload } => {
                let connection = self.rails[usize::from(*rail)].connection.as_ref();
                connection
                    .map_or(0, |connection| connection.messages.copy(*slot, *payload, into, from))
            }
            Place::Kept(bytes) => {
                let mut copied = 0;
                for (region, run) in runs(into, from, bytes.len() as u64) {
                    region.memory().write(run.start, &bytes[copied..copied + run.len()]);
                    copied += run.len();
                }
                copied as u64
            }
        }
    }

    fn release(&mut self, place: Place, stream: Stream) {
        if let Place::Slot { rail, slot, .. } = place {
            self.free(rail, slot, stream);
        }
    }

    /// A message has arrived: its place is free.
    #[inline]
    pub(in crate::link) fn give_back(&mut self, rail: u8, work: Work) {
        if let Some(connection) = &mut self.rails[usize::from(rail)].connection
            && let Work::Send { from: Pieces::One(place), .. } = work
        {
            connection.messages.give_back(place);
        }
    }

    fn free(&mut self, rail: u8, slot: u32, stream: Stream) {
        if let Some(connection) = &mut self.rails[usize::from(rail)].connection {
            connection.messages.free(slot, stream);
        }
    }
}

fn change(number: u32, at: &crate::remote::Target, change: Change) -> Body {
    let region = at.window.region().unwrap_or(0);
    Body::Change { request: number, region, offset: at.offset, change }
}

/// Messages that may wait in memory of their own: as many as may be on their way and not taken.
const MAX_KEPT: usize = 2 * crate::link::messages::outgoing::WINDOW as usize;
/// Answers that may wait for room at a peer that asks: more than a link has operations.
const MAX_ANSWERS: usize = 1 << 16;
