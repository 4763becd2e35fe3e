//! Messages come in, by any rail: each takes effect once and in its turn, and those for the caller find a receive.

use super::Core;
use super::completions::cause;
use crate::link::messages::message_queue::Payload;
use crate::link::messages::{Draft, InboxMessage, Place, Step, Turn};
use crate::link::operations::runs;
use crate::link::protocol::header::{Body, Change, Header, Stream};
use crate::link::rails::Received;
use crate::op::{Completion, Done, Failure};
use crate::region::Slice;

impl Core {
    pub(in crate::link) fn receive(&mut self, rail: u8, completion: Completion) {
        let Some(lane) = self.rails.lane_mut(rail) else { return };
        let length = match lane.receive(completion) {
            Received::Nothing => return,
            Received::Failed(failure) => return self.fail_rail(rail, cause(failure)),
            Received::Message { slot, header, payload } => {
                if self.peer_freed(rail, header.freed, header.taken) {
                    return self.take_in(rail, slot, &header, payload);
                }
                payload.begin + payload.length
            }
            Received::Malformed { length } => length,
        };
        let name = self.rails.name(rail);
        let why = format!("a malformed message of {length} bytes by {name}");
        self.fail_link(Failure::ProtocolError, &why);
    }

    /// What the peer has room for again; `false` if that cannot be.
    pub(super) fn peer_freed(&mut self, rail: u8, freed: [u32; 2], taken: u32) -> bool {
        let Some(lane) = self.rails.lane_mut(rail) else { return true };
        lane.messages_mut().peer_freed(freed)
            && self.messages.outgoing_mut(Stream::Messages).taken(taken)
    }

    fn take_in(&mut self, rail: u8, slot: u32, header: &Header, payload: Payload) {
        let stream = header.body.stream();
        if header.body == Body::Credit {
            return self.free(rail, slot, stream);
        }
        match self.messages.turn(header) {
            Turn::Now => {
                self.take_effect(header.body, Place::Slot { rail, slot, payload });
                while let Some((header, payload)) = self.messages.next_early(stream) {
                    self.take_effect(header.body, Place::Kept(payload));
                }
            }
            Turn::Later => {
                let lane = self.rails.lane(rail);
                let payload = lane.map(|lane| lane.messages().payload(slot, payload));
                let kept = self.messages.keep(*header, payload.unwrap_or_default());
                self.free(rail, slot, stream);
                if !kept {
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
                let at_once = self.messages.inbox_mut().take_at_once(body, place.length());
                if let Some((receive, done)) = at_once {
                    self.copy(&place, receive.work.local(), 0);
                    self.release(place, Stream::Messages);
                    return self.completions.finish(receive, Ok(done));
                }
                self.messages.inbox_mut().push(InboxMessage { body, place });
                return self.deliver();
            }
            Body::Change { request, region, offset, change } => {
                self.change(request, region, offset, change);
            }
            Body::Old { request, old } => self.answered(request, old),
            Body::Credit => {}
        }
        self.release(place, Stream::Control);
    }

    /// An atomic operation of the peer's.
    fn change(&mut self, request: u32, region: u64, offset: u64, change: Change) {
        let old = self.regions.word(region, offset).map(|word| {
            let memory = word.region().memory();
            match change {
                Change::Add(add) => memory.fetch_add(word.offset(), add),
                Change::Swap { expect, new } => memory.compare_swap(word.offset(), expect, new),
            }
        });
        self.messages.push(Draft::Old { request, old });
        if self.messages.has_too_many_answers() {
            let why = "the peer asks for more atomic operations than a link has";
            self.fail_link(Failure::ProtocolError, why);
        }
    }

    /// An atomic operation of ours is over.
    fn answered(&mut self, number: u32, old: Option<u64>) {
        let operation = self.operations.get(number).filter(|found| found.awaits_answer());
        let Some(operation) = operation else {
            return self.fail_link(Failure::ProtocolError, "the peer answers what was not asked");
        };
        if let (Some(old), [place]) = (old, operation.work().local()) {
            place.region().memory().store(place.offset(), old);
        }
        self.finish_operation(number, old.map(Done::Old).ok_or(Failure::Access));
    }

    /// Messages into receives, as long as there are both.
    #[inline]
    pub(super) fn deliver(&mut self) {
        loop {
            let step = match self.messages.inbox_mut().step() {
                Step::Skip(message) => {
                    self.release(message.place, Stream::Messages);
                    continue;
                }
                Step::Fill { from } => {
                    let copied = self.messages.inbox().first().map(|(receive, message)| {
                        self.copy(&message.place, receive.work.local(), from)
                    });
                    match self.messages.inbox_mut().filled(copied.unwrap_or(0)) {
                        Step::Nothing => {
                            if let Some(message) = self.messages.inbox_mut().pop_message() {
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
                let lane = self.rails.lane(*rail);
                lane.map_or(0, |lane| lane.messages().copy(*slot, *payload, into, from))
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

    fn free(&mut self, rail: u8, slot: u32, stream: Stream) {
        if let Some(lane) = self.rails.lane_mut(rail) {
            lane.messages_mut().free(slot, stream);
        }
    }
}
