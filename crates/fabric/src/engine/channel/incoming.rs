//! Frames in: what the peer asks for is checked and done.
//!
//! Unsafe here: the parts handed to the stream are bytes of this channel, or memory of operations and
//! regions that it holds at that time.
#![allow(unsafe_code, reason = "hands raw parts to the stream")]

use std::io::ErrorKind;

use super::Channel;
use super::outgoing::{PARTS, Payload};
use crate::engine::core::Core;
use crate::engine::frame::{Decoded, Header, Kind};
use crate::engine::stream::Stream;
use crate::iovec::{Part, append};
use crate::memory::copy::copy;
use crate::op::{Done, Failure, Op, Work};
use crate::region::{Rights, Slice};

/// A frame whose payload is on its way.
pub(super) struct Incoming {
    /// How many bytes, and the immediate data that came with them.
    length: usize,
    imm: Option<u32>,
    placed: usize,
    pub(super) sink: Sink,
}

pub(super) enum Sink {
    Region(Slice),
    Receive(Op),
    Operation(u32),
}

impl<S: Stream> Channel<S> {
    /// Reads and executes what is there.
    pub(in crate::engine) fn receive(&mut self, core: &mut Core) {
        let mut budget = BUDGET;
        while !self.ended {
            let asked = self.ask(core);
            // SAFETY: `ask` made the parts of the stage and of memory that the sink holds.
            let got = match unsafe { self.stream.read(&self.parts) } {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(got) if got > 0 => got,
                ended => {
                    let protocol_error =
                        ended.is_err_and(|error| error.kind() == ErrorKind::InvalidData);
                    let why =
                        if protocol_error { Failure::ProtocolError } else { Failure::PeerGone };
                    self.lost = Some(why);
                    return self.stop(core);
                }
            };
            self.arrived(got);
            if let Err(failure) = self.execute(core) {
                self.stop(core);
                return core.die(None, failure, Failure::Flushed);
            }
            // A stream that gave less than asked for has no more now. A ring may: but to look for the next record
            // at once is to wait for a line that the peer has just written, with this one in hand.
            budget = budget.saturating_sub(got);
            if got < asked || budget == 0 {
                return;
            }
        }
    }

    /// Collects the places for what comes next: the rest of a payload, then the stage.
    fn ask(&mut self, core: &Core) -> usize {
        let (start, end) = self.ahead;
        self.stage.copy_within(start..end, 0);
        self.ahead = (0, end - start);
        self.parts.clear();
        if let Some(incoming) = &self.incoming {
            let left = incoming.left();
            match &incoming.sink {
                Sink::Region(slice) => {
                    append(&mut self.parts, std::slice::from_ref(slice), incoming.placed, left);
                }
                Sink::Receive(op) => {
                    append(&mut self.parts, op.work.local(), incoming.placed, left);
                }
                Sink::Operation(flight) => {
                    let (slices, start, _) = core.operations.local(*flight).unwrap_or_default();
                    append(&mut self.parts, slices, start + incoming.placed, left);
                }
            }
        }
        self.parts.truncate(PARTS - 1);
        let filled = self.ahead.1;
        // A payload in more pieces than fit must be whole before the stage is filled.
        let listed: usize = self.parts.iter().map(|part| part.length).sum();
        if self.incoming.as_ref().is_none_or(|incoming| incoming.left() == listed) {
            self.parts.push(Part::of_bytes(&mut self.stage[filled..]));
        }
        self.parts.iter().map(|part| part.length).sum()
    }

    fn arrived(&mut self, mut count: usize) {
        if let Some(incoming) = &mut self.incoming {
            let placed = incoming.left().min(count);
            incoming.placed += placed;
            count -= placed;
        }
        self.ahead.1 += count;
    }

    /// Executes every frame that is there in full, and begins the one that is not.
    fn execute(&mut self, core: &mut Core) -> Result<(), Failure> {
        loop {
            if let Some(incoming) = &mut self.incoming {
                let (start, end) = self.ahead;
                let count = incoming.left().min(end - start);
                if count > 0 {
                    let bytes = &self.stage[start..start + count];
                    place(incoming, bytes, core);
                    self.ahead.0 += count;
                }
                if incoming.left() > 0 {
                    return Ok(());
                }
                let incoming = self.incoming.take().expect("just seen");
                self.placed(incoming, core)?;
            }
            let (start, end) = self.ahead;
            let (header, length) = match Header::decode(&self.stage[start..end]) {
                Decoded::Header(header, length) => (header, length),
                Decoded::Short => return Ok(()),
                Decoded::ProtocolError => return Err(Failure::ProtocolError),
            };
            self.ahead.0 += length;
            self.begin(header, core)?;
            if self.ended {
                return Ok(());
            }
        }
    }

    /// Does what a header asks for, or prepares the place of its payload.
    fn begin(&mut self, header: Header, core: &mut Core) -> Result<(), Failure> {
        self.acknowledge(header.ack, core)?;
        core.peer_posted(header.credit)?;
        let length = usize::try_from(header.length).map_err(|_| Failure::ProtocolError)?;
        let sink = match header.kind {
            Kind::Write => {
                let wanted = Rights { write: true, ..Rights::NONE };
                match core.grants.check(header.key, header.offset, header.length, wanted) {
                    Ok(slice) => Sink::Region(slice),
                    Err(failure) => return self.refuse(failure, None, core),
                }
            }
            Kind::Send => {
                let receive = core.take_receive()?;
                if length > receive.work.total() {
                    core.complete(receive, Err(Failure::TooLong));
                    return self.refuse(Failure::TooLong, None, core);
                }
                Sink::Receive(receive)
            }
            Kind::Data => {
                let right =
                    core.operations.local(header.number).is_some_and(|(_, _, n)| n == length)
                        && is_read(core, header.number)
                        && core.operations.take_asked(header.number);
                if !right {
                    return Err(Failure::ProtocolError);
                }
                Sink::Operation(header.number)
            }
            Kind::Imm => {
                if !(S::NUMBERS_ALONE && header.flag) {
                    return Err(Failure::ProtocolError);
                }
                self.executed = self.executed.wrapping_add(1);
                let receive = core.take_receive()?;
                let imm = Some(header.number);
                core.complete(receive, Ok(Done::Received { length, imm }));
                return Ok(());
            }
            Kind::Read => return self.read(header, core),
            Kind::Add | Kind::Swap => return self.atomic(header, core),
            Kind::Old => return old(header, core),
            Kind::Fail => {
                self.failed(header, core);
                return Ok(());
            }
            Kind::Note => return Ok(()),
        };
        let imm = header.flag.then_some(header.number);
        self.incoming = Some(Incoming { length, imm, placed: 0, sink });
        Ok(())
    }

    /// A payload is where it belongs.
    fn placed(&mut self, incoming: Incoming, core: &mut Core) -> Result<(), Failure> {
        let Incoming { length, imm, sink, .. } = incoming;
        let received = Done::Received { length, imm };
        match sink {
            Sink::Operation(flight) => core.land(flight, Done::Placed),
            Sink::Receive(receive) => {
                self.executed = self.executed.wrapping_add(1);
                core.complete(receive, Ok(received));
            }
            Sink::Region(_) => {
                self.executed = self.executed.wrapping_add(1);
                if imm.is_some() {
                    let receive = core.take_receive()?;
                    core.complete(receive, Ok(received));
                }
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, ack: u32, core: &mut Core) -> Result<(), Failure> {
        let count = ack.wrapping_sub(self.acknowledged) as usize;
        if count > self.unacknowledged.len() {
            return Err(Failure::ProtocolError);
        }
        self.acknowledged = ack;
        for flight in self.unacknowledged.drain(..count) {
            core.land(flight, Done::Placed);
        }
        Ok(())
    }

    fn read(&mut self, header: Header, core: &mut Core) -> Result<(), Failure> {
        let wanted = Rights { read: true, ..Rights::NONE };
        match core.grants.check(header.key, header.offset, header.length, wanted) {
            Ok(slice) => {
                let data = Header {
                    number: header.number,
                    length: header.length,
                    ..Header::new(Kind::Data)
                };
                self.answer(data, Payload::Answer(slice))
            }
            Err(failure) => self.refuse(failure, Some(header.number), core),
        }
    }

    fn atomic(&mut self, header: Header, core: &mut Core) -> Result<(), Failure> {
        let word = match core.grants.check_word(header.key, header.offset) {
            Ok(word) => word,
            Err(failure) => return self.refuse(failure, Some(header.number), core),
        };
        let memory = word.region().memory();
        let before = match header.kind {
            Kind::Add => memory.fetch_add(word.offset(), header.first),
            _ => memory.compare_swap(word.offset(), header.second, header.first),
        };
        let old = Header { number: header.number, length: before, ..Header::new(Kind::Old) };
        self.answer(old, Payload::Answer(word))
    }

    fn answer(&mut self, header: Header, payload: Payload) -> Result<(), Failure> {
        self.answers += 1;
        if self.answers > MAX_ANSWERS {
            return Err(Failure::ProtocolError);
        }
        self.push(header, payload);
        Ok(())
    }
}

impl Incoming {
    fn left(&self) -> usize {
        self.length - self.placed
    }
}

/// Copies bytes that were read ahead to where they belong.
fn place(incoming: &mut Incoming, mut bytes: &[u8], core: &Core) {
    let (slices, start) = match &incoming.sink {
        Sink::Region(slice) => (std::slice::from_ref(slice), 0),
        Sink::Receive(op) => (op.work.local(), 0),
        Sink::Operation(flight) => {
            let (slices, start, _) = core.operations.local(*flight).unwrap_or_default();
            (slices, start)
        }
    };
    let mut skip = start + incoming.placed;
    for slice in slices {
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let count = (slice.len() - skip).min(bytes.len());
        // SAFETY: within the slice, which the sink holds; the stage is no part of any region.
        unsafe { copy(slice.address().wrapping_add(skip), bytes.as_ptr(), count) };
        incoming.placed += count;
        bytes = &bytes[count..];
        skip = 0;
        if bytes.is_empty() {
            return;
        }
    }
}

fn is_read(core: &Core, flight: u32) -> bool {
    core.operations.op(flight).is_some_and(|op| matches!(op.work, Work::Read { .. }))
}

/// The answer to an atomic operation.
fn old(header: Header, core: &mut Core) -> Result<(), Failure> {
    let old = core.operations.op(header.number).and_then(|op| match &op.work {
        Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => Some(old.clone()),
        _ => None,
    });
    let old = old.ok_or(Failure::ProtocolError)?;
    if !core.operations.take_asked(header.number) {
        return Err(Failure::ProtocolError);
    }
    old.region().memory().store(old.offset(), header.length);
    core.land(header.number, Done::Old(header.length));
    Ok(())
}

/// How much is read in one poll, so that sending gets its turn. Little in tests, which see then what
/// becomes of the rest.
const BUDGET: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// More questions at once than any peer of ours asks.
const MAX_ANSWERS: usize = 1 << 16;
