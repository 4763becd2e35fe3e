//! Messages of a link: out by whichever rail has room, in by any, each taking effect once.

use super::core::{Core, RECEIVE};
use super::flights::{Tail, cut};
use super::header::{Body, Change, Header, Stream};
use super::inbox::{Letter, Place, Step};
use super::incoming::Turn;
use super::outgoing::{Draft, Message};
use super::parts::What;
use crate::op::{Completion, Done, Failure, Pieces, Work};

impl Core {
    // Out.

    pub(super) fn send_all(&mut self, stream: Stream) {
        while self.send_next(stream, None) {}
    }

    /// Sends one message, if there is one, and a rail for it; `on` one that was chosen already.
    pub(super) fn send_next(&mut self, stream: Stream, on: Option<u8>) -> bool {
        let Some(rail) = on.or_else(|| self.rail_for_message(stream)) else { return false };
        if let Some(message) = self.outgoing[stream as usize].next_again() {
            self.launch(rail, message);
            return true;
        }
        if !self.outgoing[stream as usize].may_number() {
            return false;
        }
        let Some(draft) = self.outgoing[stream as usize].draft() else { return false };
        let (body, flight, payload, over) = self.write(draft);
        if over {
            self.outgoing[stream as usize].drop_draft();
        }
        let sequence = self.outgoing[stream as usize].number();
        self.launch(rail, Message { sequence, body, flight, payload });
        true
    }

    /// What a draft says next, whose it is, how long its payload is, and whether that is all of it.
    fn write(&mut self, draft: Draft) -> (Body, Option<u32>, u64, bool) {
        let number = match draft {
            Draft::Old { request, old } => return (Body::Old { request, old }, None, 0, true),
            Draft::Send(number) | Draft::Notice(number) | Draft::Change(number) => number,
        };
        let room = self.their_room;
        let Some(flight) = self.flights.get_mut(number) else {
            return (Body::Credit, None, 0, true);
        };
        flight.begun = true;
        match &flight.op.work {
            Work::Send { imm, .. } => {
                let (total, offset) = (flight.total, flight.cut);
                let length = (total - offset).min(room);
                flight.cut += length;
                flight.messages += 1;
                let body = Body::Part { total, offset, imm: *imm };
                (body, Some(number), length, flight.cut == total)
            }
            Work::FetchAdd { at, add, .. } => {
                let body = change(number, at, Change::Add(*add));
                (body, None, 0, true)
            }
            Work::CompareSwap { at, expect, new, .. } => {
                let body = change(number, at, Change::Swap { expect: *expect, new: *new });
                (body, None, 0, true)
            }
            Work::Write { imm, .. } => {
                let body = Body::Notice { length: flight.total, imm: imm.unwrap_or(0) };
                (body, Some(number), 0, true)
            }
            Work::Read { .. } | Work::Receive { .. } => (Body::Credit, None, 0, true),
        }
    }

    /// The active rail with room and the least to do.
    fn rail_for_message(&self, stream: Stream) -> Option<u8> {
        let window = self.config.window as u64;
        let load = |rail: u8| {
            let rail = &self.rails[usize::from(rail)];
            let track = rail.track.as_ref()?;
            let has_room = track.mail.has_room(stream) && track.out < track.depth;
            // Behind much else a message would wait long.
            let load = (track.bytes_out.min(window) + 64 * u64::from(track.out))
                / u64::from(rail.plan.weight);
            has_room.then_some(load)
        };
        let rails = self.active.iter().filter_map(|rail| Some((load(*rail)?, *rail)));
        rails.min().map(|(_, rail)| rail)
    }

    fn launch(&mut self, rail: u8, message: Message) {
        let Some(track) = &mut self.rails[usize::from(rail)].track else { return };
        let header = Header { sequence: message.sequence, freed: [0; 2], body: message.body };
        let Some((place, header)) = track.mail.address(header) else {
            // Not without a place for the header, which the room at the peer stands for.
            return self.fail_link(Failure::Nonsense, "the peer has more room than it said");
        };
        let pieces =
            match (message.flight.and_then(|flight| self.flights.get(flight)), message.body) {
                (Some(flight), Body::Part { offset, .. }) if message.payload > 0 => {
                    match cut(flight.op.work.local(), offset, message.payload) {
                        Pieces::One(one) => Pieces::Many(vec![header, one]),
                        Pieces::Many(mut many) => {
                            many.insert(0, header);
                            Pieces::Many(many)
                        }
                    }
                }
                _ => Pieces::One(header),
            };
        let work = Work::Send { from: pieces, imm: None };
        let bytes = message.payload + Header::LENGTH as u64;
        self.put(rail, bytes, work, What::Message { place, message: Box::new(message) });
    }

    /// Gives the lane its free slots back, and says so to a peer that may wait for them.
    #[inline]
    pub(super) fn refill(&mut self, rail: u8) {
        let Some(track) = &mut self.rails[usize::from(rail)].track else { return };
        if !track.mail.has_idle() || track.closed {
            return;
        }
        let receives = &mut self.receives;
        track.mail.receives(receives, |slot| RECEIVE | u64::from(slot));
        track.lane.post(receives);
        if !receives.is_empty() {
            receives.clear();
            return self.die(rail, "the lane has no room for its receives");
        }
        if track.mail.owes_credit() && track.mail.has_room_for_credit() {
            let body = Body::Credit;
            self.launch(rail, Message { sequence: 0, body, flight: None, payload: 0 });
        }
    }

    // In.

    pub(super) fn receive(&mut self, rail: u8, completion: Completion) {
        let slot = (completion.token & !RECEIVE) as u32;
        let Some(track) = &mut self.rails[usize::from(rail)].track else { return };
        track.mail.returned();
        let length = match completion.outcome {
            Ok(Done::Received { length, .. }) => length,
            Ok(_) => return,
            Err(failure) if track.closed => {
                let _ = failure;
                return;
            }
            Err(failure) => return self.die(rail, &format!("a receive failed: {failure}")),
        };
        track.received += 1;
        let mut bytes = std::mem::take(&mut self.scratch);
        track.mail.read(slot, length, &mut bytes);
        let header = bytes.first_chunk().and_then(Header::parse);
        match header.filter(|header| track.mail.peer_freed(header.freed)) {
            Some(header) => self.take_in(rail, slot, &header, &bytes[Header::LENGTH..]),
            None => self.fail_link(Failure::Nonsense, "a message of the peer's is none of ours"),
        }
        self.scratch = bytes;
    }

    fn take_in(&mut self, rail: u8, slot: u32, header: &Header, payload: &[u8]) {
        let stream = header.body.stream();
        if header.body == Body::Credit {
            return self.free(rail, slot, stream);
        }
        match self.incoming[stream as usize].turn(header.sequence) {
            Turn::Now => {
                let place = Place::Slot { rail, slot, length: payload.len() };
                self.take_effect(header.body, place);
                while let Some((header, payload)) = self.incoming[stream as usize].next_early() {
                    self.take_effect(header.body, Place::Kept(payload));
                }
            }
            Turn::Later => {
                self.incoming[stream as usize].keep(*header, payload);
                self.free(rail, slot, stream);
            }
            Turn::Again => self.free(rail, slot, stream),
            Turn::Nonsense => {
                self.fail_link(
                    Failure::Nonsense,
                    "a message of the peer's is far ahead of its turn",
                );
            }
        }
    }

    fn take_effect(&mut self, body: Body, place: Place) {
        match body {
            Body::Part { .. } | Body::Notice { .. } => {
                // A number has no payload to keep: its slot is free at once, but counts until it is taken.
                self.inbox.push(Letter { body, place });
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
                let notes = &mut self.outgoing[Stream::Notes as usize];
                notes.push(Draft::Old { request, old });
                if notes.drafts() > MOST_ANSWERS {
                    let why = "the peer asks for more atomic operations than a link has";
                    self.fail_link(Failure::Nonsense, why);
                }
            }
            Body::Old { request, old } => self.answered(request, old),
            Body::Credit => {}
        }
        self.release(place, Stream::Notes);
    }

    /// An atomic operation of ours is over.
    fn answered(&mut self, request: u64, old: Option<u64>) {
        let number = u32::try_from(request).ok();
        let flight = number.and_then(|number| self.flights.get(number));
        let (Some(number), Some(flight)) = (number, flight.filter(|f| f.tail == Tail::Answer))
        else {
            return self.fail_link(Failure::Nonsense, "the peer answers what was not asked");
        };
        if let (Some(old), [place]) = (old, flight.op.work.local()) {
            place.region().memory().store(place.offset(), old);
        }
        self.finish_flight(number, old.map(Done::Old).ok_or(Failure::Access));
    }

    /// Letters into receives, as long as there are both.
    #[inline]
    pub(super) fn deliver(&mut self) {
        loop {
            let step = match self.inbox.step() {
                Step::Fill { from } => {
                    let bytes = self.fill(from);
                    match self.inbox.filled(bytes) {
                        Step::Nothing => {
                            if let Some(letter) = self.inbox.pop_letter() {
                                self.release(letter.place, Stream::Letters);
                            }
                            continue;
                        }
                        step => step,
                    }
                }
                step => step,
            };
            match step {
                Step::Nothing | Step::Fill { .. } => return,
                Step::Over(receive, outcome, letter) => {
                    if let Some(letter) = letter {
                        self.release(letter.place, Stream::Letters);
                    }
                    self.finish(receive, outcome);
                }
                Step::Nonsense => {
                    return self.fail_link(Failure::Nonsense, "the parts of a message do not fit");
                }
            }
        }
    }

    /// Copies the first letter into the first receive, from an offset on; says how much.
    fn fill(&mut self, from: u64) -> u64 {
        let Some((receive, letter)) = self.inbox.first() else { return 0 };
        let kept;
        let bytes: &[u8] = match &letter.place {
            Place::Kept(bytes) => bytes,
            Place::Slot { rail, slot, length } => {
                let mut bytes = Vec::new();
                if let Some(track) = &self.rails[usize::from(*rail)].track {
                    track.mail.read(*slot, Header::LENGTH + length, &mut bytes);
                }
                kept = bytes;
                kept.get(Header::LENGTH..).unwrap_or_default()
            }
        };
        let room = (receive.work.total() as u64).saturating_sub(from);
        let bytes = &bytes[..bytes.len().min(room as usize)];
        let mut rest = bytes;
        let pieces = cut(receive.work.local(), from, bytes.len() as u64);
        for piece in pieces.as_slice() {
            let (part, more) = rest.split_at(piece.len().min(rest.len()));
            piece.region().memory().write(piece.offset(), part);
            rest = more;
        }
        bytes.len() as u64
    }

    fn release(&mut self, place: Place, stream: Stream) {
        if let Place::Slot { rail, slot, .. } = place {
            self.free(rail, slot, stream);
        }
    }

    fn free(&mut self, rail: u8, slot: u32, stream: Stream) {
        if let Some(track) = &mut self.rails[usize::from(rail)].track {
            track.mail.free(slot, stream);
        }
    }
}

fn change(number: u32, at: &crate::remote::Target, change: Change) -> Body {
    let region = match *at.window.reach() {
        crate::remote::Reach::Link { region } => region,
        _ => 0,
    };
    Body::Change { request: number.into(), region, offset: at.offset, change }
}

/// Answers that may wait for room at a peer that asks: more than a link has operations.
const MOST_ANSWERS: usize = 1 << 16;
