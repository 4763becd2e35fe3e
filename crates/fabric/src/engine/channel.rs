//! One stream of a lane: frames out, frames in.
//!
//! Unsafe here: the parts handed to the stream are bytes of this channel, or memory of operations and
//! regions that it holds at that time.
#![allow(unsafe_code, reason = "hands raw parts to the stream")]

use std::collections::VecDeque;
use std::io::ErrorKind;

use super::core::Core;
use super::frame::{Decoded, Header, Kind, reason, reason_number};
use super::part::{Part, append};
use super::stream::Stream;
use crate::memory::copy::copy;
use crate::op::{Done, Failure, Op, Work};
use crate::region::{Rights, Slice};

pub(super) struct Channel<S> {
    pub(super) stream: S,
    parts: Vec<Part>,

    /// Frames to be sent, the first of them perhaps in part.
    queue: VecDeque<Outgoing>,
    sent: usize,
    /// Counted frames that the peer has and has not acknowledged, and how many it has.
    unacknowledged: VecDeque<u32>,
    acknowledged: u32,
    /// Answers of ours in the queue.
    answers: usize,

    /// Bytes read ahead: of them `ahead.0..ahead.1` are not used yet.
    stage: Box<[u8]>,
    ahead: (usize, usize),
    incoming: Option<Incoming>,
    /// How many counted frames were executed, and how many the peer knows of.
    executed: u32,
    told: u32,
    /// For how many polls there was something that the peer should hear.
    due: u32,
    /// No more is read or queued.
    ended: bool,
    /// The peer was told so.
    finished: bool,
    closed: bool,
    /// It carries the reason of the end to the peer.
    pub(super) last_word: bool,
    /// No more can be written. What the peer said before may still be read.
    broken: bool,
    /// The stream failed, or the peer ended it.
    pub(super) lost: Option<Failure>,
}

struct Outgoing {
    header: Header,
    bytes: [u8; Header::LONGEST],
    payload: Payload,
}

enum Payload {
    /// None, or that of an operation under way.
    Flight(u32),
    /// A region's, for a peer that asked.
    Answer(Slice),
    None,
}

/// A frame whose payload is on its way.
struct Incoming {
    header: Header,
    placed: usize,
    sink: Sink,
}

enum Sink {
    Region(Slice),
    Receive(Op),
    Flight(u32),
}

impl<S: Stream> Channel<S> {
    pub(super) fn new(stream: S) -> Self {
        Channel {
            stream,
            parts: Vec::with_capacity(PARTS),
            queue: VecDeque::new(),
            sent: 0,
            unacknowledged: VecDeque::new(),
            acknowledged: 0,
            answers: 0,
            stage: vec![0; S::AHEAD.max(Header::LONGEST)].into(),
            ahead: (0, 0),
            incoming: None,
            executed: 0,
            told: 0,
            due: 0,
            ended: false,
            finished: false,
            closed: false,
            last_word: false,
            broken: false,
            lost: None,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn is_blocked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Nothing to send, and nothing to tell.
    #[inline]
    pub(super) fn is_quiet(&self, core: &Core) -> bool {
        let told = self.executed == self.told && !core.must_tell();
        self.queue.is_empty() && told && self.lost.is_none()
    }

    /// How many frames wait, to choose the least busy stream.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Queues a frame for an operation under way.
    #[inline]
    pub(super) fn queue(&mut self, header: Header, flight: u32) {
        self.push(header, Payload::Flight(flight));
    }

    #[inline]
    fn push(&mut self, header: Header, payload: Payload) {
        if self.broken {
            return;
        }
        self.queue.push_back(Outgoing { header, bytes: [0; Header::LONGEST], payload });
    }

    // Out.

    /// Sends what it can.
    pub(super) fn flush(&mut self, core: &mut Core) {
        while !self.queue.is_empty() {
            self.gather(core);
            // SAFETY: `gather` made the parts of frames in the queue, whose memory the queue, the
            // flights and the regions hold.
            match unsafe { self.stream.write(&self.parts) } {
                Ok(written) if written > 0 => self.advance(written, core),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.lost = Some(Failure::Nonsense);
                    return self.stop(core);
                }
                // The reader finds the end, and what was said before it.
                Ok(_) | Err(_) => {
                    self.broken = true;
                    self.queue.clear();
                    self.sent = 0;
                }
            }
        }
        if self.ended && !self.finished {
            self.finished = true;
            self.stream.finish();
        }
    }

    /// Collects the places of the next frames.
    fn gather(&mut self, core: &Core) {
        self.parts.clear();
        let mut skip = self.sent;
        for frame in &mut self.queue {
            if self.parts.len() + 2 > PARTS {
                break;
            }
            if skip == 0 {
                frame.header.ack = self.executed;
                frame.header.credit = core.credit();
                frame.header.encode(&mut frame.bytes);
            }
            let length = frame.header.kind.header();
            if skip < length {
                self.parts.push(Part::of_const(&frame.bytes[skip..length]));
            }
            let placed = skip.saturating_sub(length);
            let left = frame.header.payload() as usize - placed;
            match &frame.payload {
                Payload::Flight(flight) => {
                    let (slices, start, _) = core.flights.local(*flight).unwrap_or_default();
                    append(&mut self.parts, slices, start + placed, left);
                }
                Payload::Answer(slice) => {
                    append(&mut self.parts, std::slice::from_ref(slice), placed, left);
                }
                Payload::None => {}
            }
            skip = 0;
        }
    }

    /// Takes note of what was sent.
    fn advance(&mut self, written: usize, core: &mut Core) {
        self.sent += written;
        while let Some(frame) = self.queue.front() {
            let whole = frame.header.whole();
            if self.sent < whole {
                return;
            }
            self.sent -= whole;
            let frame = self.queue.pop_front().expect("just seen");
            self.told = frame.header.ack;
            core.told(frame.header.credit);
            match frame.payload {
                Payload::Flight(flight) if frame.header.is_counted() => {
                    self.unacknowledged.push_back(flight);
                }
                Payload::Flight(flight) => core.flights.set_asked(flight),
                Payload::Answer(_) => self.answers -= 1,
                Payload::None => {}
            }
        }
    }

    /// Tells the peer what it should know, if nothing else would soon: an answer that is posted within
    /// a few polls carries it for nothing. `now`: without waiting for such an answer.
    pub(super) fn tell(&mut self, core: &mut Core, now: bool) {
        if self.executed == self.told && !core.must_tell() {
            self.due = 0;
            return;
        }
        self.due += 1;
        if (self.due > POLLS || now) && self.queue.is_empty() && !self.ended {
            self.push(Header::new(Kind::Note), Payload::None);
            self.flush(core);
            self.due = 0;
        }
    }

    // In.

    /// Reads and executes what is there.
    pub(super) fn receive(&mut self, core: &mut Core) {
        let mut budget = BUDGET;
        while !self.ended {
            let asked = self.ask(core);
            // SAFETY: `ask` made the parts of the stage and of memory that the sink holds.
            let got = match unsafe { self.stream.read(&self.parts) } {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(got) if got > 0 => got,
                ended => {
                    let nonsense = ended.is_err_and(|error| error.kind() == ErrorKind::InvalidData);
                    let why = if nonsense { Failure::Nonsense } else { Failure::PeerGone };
                    self.lost = Some(why);
                    return self.stop(core);
                }
            };
            self.arrived(got);
            if let Err(failure) = self.execute(core) {
                self.stop(core);
                return core.die(None, failure, Failure::Flushed);
            }
            // A stream that gave less than asked for has no more now.
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
                Sink::Flight(flight) => {
                    let (slices, start, _) = core.flights.local(*flight).unwrap_or_default();
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
                Decoded::Nonsense => return Err(Failure::Nonsense),
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
        let length = usize::try_from(header.length).map_err(|_| Failure::Nonsense)?;
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
                let right = core.flights.local(header.number).is_some_and(|(_, _, n)| n == length)
                    && is_read(core, header.number)
                    && core.flights.take_asked(header.number);
                if !right {
                    return Err(Failure::Nonsense);
                }
                Sink::Flight(header.number)
            }
            Kind::Imm => {
                if !(S::NUMBERS_ALONE && header.flag) {
                    return Err(Failure::Nonsense);
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
        self.incoming = Some(Incoming { header, placed: 0, sink });
        Ok(())
    }

    /// A payload is where it belongs.
    fn placed(&mut self, incoming: Incoming, core: &mut Core) -> Result<(), Failure> {
        let Incoming { header, sink, .. } = incoming;
        let imm = header.flag.then_some(header.number);
        let received = Done::Received { length: header.length as usize, imm };
        match sink {
            Sink::Flight(flight) => core.land(flight, Done::Placed),
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
            return Err(Failure::Nonsense);
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
        if self.answers > MOST_ANSWERS {
            return Err(Failure::Nonsense);
        }
        self.push(header, payload);
        Ok(())
    }

    // The end.

    /// Tells the peer that it may not, and ends the lane: `question`, or the frame that comes after
    /// those acknowledged.
    fn refuse(
        &mut self,
        failure: Failure,
        question: Option<u32>,
        core: &mut Core,
    ) -> Result<(), Failure> {
        let header = Header {
            number: question.unwrap_or(0),
            flag: question.is_none(),
            length: reason_number(failure),
            ..Header::new(Kind::Fail)
        };
        self.stop(core);
        // Behind a frame that was cut short nothing can be said.
        if !self.closed {
            self.last_word = true;
            self.push(header, Payload::None);
        }
        core.die(None, failure, Failure::Flushed);
        Ok(())
    }

    /// The peer refused something of ours.
    fn failed(&mut self, header: Header, core: &mut Core) {
        let cause = match header.flag {
            true => self.unacknowledged.front().copied().or_else(|| self.being_sent()),
            false => Some(header.number),
        };
        self.stop(core);
        core.die(cause, reason(header.length), Failure::Flushed);
    }

    /// The operation whose frame is on its way in part.
    fn being_sent(&self) -> Option<u32> {
        match self.queue.front()?.payload {
            Payload::Flight(flight) if self.sent > 0 => Some(flight),
            _ => None,
        }
    }

    /// Ends the stream both ways, whatever was begun.
    pub(super) fn close(&mut self, core: &mut Core) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.ended = true;
        self.finished = true;
        self.abandon_incoming(core);
        self.queue.clear();
        self.stream.close();
    }

    /// The receive of a message that will never be whole comes back too.
    fn abandon_incoming(&mut self, core: &mut Core) {
        if let Some(Incoming { sink: Sink::Receive(op), .. }) = self.incoming.take() {
            core.return_receive(op);
        }
    }

    /// Says nothing more, not even that it ends.
    pub(super) fn mute(&mut self, core: &mut Core) {
        if !self.ended {
            self.finished = true;
            self.stop(core);
        }
    }

    /// Reads no more and sends no more: what is in the queue belongs to operations that are over now. A
    /// frame that was begun is cut short, and with it the stream.
    fn stop(&mut self, core: &mut Core) {
        self.ended = true;
        self.abandon_incoming(core);
        self.answers = 0;
        self.unacknowledged.clear();
        if self.sent > 0 {
            return self.close(core);
        }
        self.queue.clear();
    }
}

impl Incoming {
    fn left(&self) -> usize {
        self.header.payload() as usize - self.placed
    }
}

/// Copies bytes that were read ahead to where they belong.
fn place(incoming: &mut Incoming, mut bytes: &[u8], core: &Core) {
    let (slices, start) = match &incoming.sink {
        Sink::Region(slice) => (std::slice::from_ref(slice), 0),
        Sink::Receive(op) => (op.work.local(), 0),
        Sink::Flight(flight) => {
            let (slices, start, _) = core.flights.local(*flight).unwrap_or_default();
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
    core.flights.op(flight).is_some_and(|op| matches!(op.work, Work::Read { .. }))
}

/// The answer to an atomic operation.
fn old(header: Header, core: &mut Core) -> Result<(), Failure> {
    let old = core.flights.op(header.number).and_then(|op| match &op.work {
        Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => Some(old.clone()),
        _ => None,
    });
    let old = old.ok_or(Failure::Nonsense)?;
    if !core.flights.take_asked(header.number) {
        return Err(Failure::Nonsense);
    }
    old.region().memory().store(old.offset(), header.length);
    core.land(header.number, Done::Old(header.length));
    Ok(())
}

/// For how many polls news wait for a frame that carries them.
const POLLS: u32 = 4;
/// Places handed to the stream in one call; the kernel takes up to 1024.
const PARTS: usize = 64;
/// How much is read in one poll, so that sending gets its turn.
const BUDGET: usize = 4 << 20;
/// More questions at once than any peer of ours asks.
const MOST_ANSWERS: usize = 1 << 16;
