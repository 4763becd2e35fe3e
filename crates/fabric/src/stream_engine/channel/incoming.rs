//! Receiving frames: the peer's requests are checked and executed.
//!
//! Unsafe here: the parts passed to the stream are bytes of this channel, or memory of operations and
//! regions that are owned during the call.
#![allow(unsafe_code, reason = "passes raw parts to the stream")]

use std::io::{self, ErrorKind};

use super::StreamChannel;
use super::outgoing::{MAX_PARTS, Payload};
use crate::iovec::{IoVec, append};
use crate::memory::copy::copy;
use crate::op::{Done, Failure, Op, Work};
use crate::packets::PacketReceiver;
use crate::region::{Rights, Slice};
use crate::stream_engine::frame::{Decoded, Header, Kind, PacketHeader};
use crate::stream_engine::lane_state::LaneState;
use crate::stream_engine::stream::Stream;

/// A frame whose payload is being received.
pub(super) struct Incoming {
    /// The payload's length, and the immediate data.
    length: usize,
    imm: Option<u32>,
    placed: usize,
    pub(super) sink: Sink,
}

pub(super) enum Sink {
    Region(Slice),
    Receive(Op),
    Operation(u32),
    Packet(Vec<u8>),
}

impl<S: Stream> StreamChannel<S> {
    /// Reads and executes frames.
    #[inline]
    pub(in crate::stream_engine) fn receive(
        &mut self,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) {
        let mut budget = MAX_BYTES_PER_POLL;
        while !self.ended {
            let (got, capacity) = match &self.incoming {
                None => self.read_ahead(),
                Some(_) => self.read_payload(state),
            };
            let got = match got {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(got) if got > 0 => got,
                ended => {
                    let protocol_error =
                        ended.is_err_and(|error| error.kind() == ErrorKind::InvalidData);
                    let why =
                        if protocol_error { Failure::ProtocolError } else { Failure::PeerGone };
                    self.lost = Some(why);
                    return self.stop(state);
                }
            };
            self.count_received(got);
            if let Err(failure) = self.execute(state, receiver) {
                self.stop(state);
                return state.fail(None, failure, Failure::Flushed);
            }
            // A stream that returned less than the capacity has no more now. A ring may have, but checking for the next record
            // immediately would wait for a cache line that the peer is just writing, and delay this record.
            budget = budget.saturating_sub(got);
            if got < capacity || budget == 0 {
                return;
            }
        }
    }

    /// Reads headers, and what follows them, into the buffer. Returns the result and what it could have read.
    #[inline]
    fn read_ahead(&mut self) -> (io::Result<usize>, usize) {
        self.move_unread();
        let free = &mut self.buffer[self.unread.1..];
        let capacity = free.len();
        (self.stream.read_ahead(free), capacity)
    }

    /// Moves what is not processed yet to the start of the buffer.
    #[inline]
    fn move_unread(&mut self) {
        let (start, end) = self.unread;
        if start < end {
            self.buffer.copy_within(start..end, 0);
        }
        self.unread = (0, end - start);
    }

    /// Reads the rest of a payload, and then into the buffer. Returns the result and what it could have read.
    fn read_payload(&mut self, state: &LaneState) -> (io::Result<usize>, usize) {
        let capacity = self.collect_parts(state);
        // SAFETY: `collect_parts` took the parts from the buffer and from memory that the sink owns.
        (unsafe { self.stream.read(&self.parts) }, capacity)
    }

    /// Collects the parts to read into: the rest of a payload, then the buffer. Returns their length.
    fn collect_parts(&mut self, state: &LaneState) -> usize {
        self.move_unread();
        let filled = self.unread.1;
        self.parts.clear();
        let Some(incoming) = &mut self.incoming else { return 0 };
        let left = incoming.left();
        match &mut incoming.sink {
            Sink::Region(slice) => {
                append(&mut self.parts, std::slice::from_ref(slice), incoming.placed, left);
            }
            Sink::Receive(op) => {
                append(&mut self.parts, op.work.local(), incoming.placed, left);
            }
            Sink::Operation(id) => {
                let (slices, start, _) = state.operations.local(*id).unwrap_or_default();
                append(&mut self.parts, slices, start + incoming.placed, left);
            }
            Sink::Packet(bytes) => {
                self.parts.push(IoVec::of_bytes(&mut bytes[incoming.placed..]));
            }
        }
        self.parts.truncate(MAX_PARTS - 1);
        // A payload in more parts than fit must be complete before the buffer is filled.
        let listed: usize = self.parts.iter().map(|part| part.length).sum();
        if listed == left {
            self.parts.push(IoVec::of_bytes(&mut self.buffer[filled..]));
        }
        self.parts.iter().map(|part| part.length).sum()
    }

    #[inline]
    fn count_received(&mut self, mut count: usize) {
        if let Some(incoming) = &mut self.incoming {
            let placed = incoming.left().min(count);
            incoming.placed += placed;
            count -= placed;
        }
        self.unread.1 += count;
    }

    /// Executes every complete frame, and starts the incomplete one.
    #[inline]
    fn execute(
        &mut self,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<(), Failure> {
        if state.packets.are_accepted() && self.incoming.is_none() {
            self.execute_packets(state, receiver)?;
            if self.unread.0 == self.unread.1 {
                return Ok(());
            }
        }
        self.execute_frames(state, receiver)
    }

    /// Executes the complete packets at the start of the buffer, which are most of what arrives on a link.
    #[inline]
    fn execute_packets(
        &mut self,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<(), Failure> {
        loop {
            let (start, end) = self.unread;
            let Some(header) = PacketHeader::decode(&self.buffer[start..end]) else {
                return Ok(());
            };
            let begin = start + PacketHeader::BYTES;
            // One that is not here yet is executed as other frames are.
            if header.length > (end - begin) as u64 {
                return Ok(());
            }
            self.acknowledge(header.ack, state)?;
            state.peer_posted(header.credit)?;
            let length = header.length as usize;
            if !state.packets.fits(length) {
                return Err(Failure::ProtocolError);
            }
            self.unread.0 = begin + length;
            self.count_executed(false);
            state.packet_arrived(&self.buffer[begin..begin + length], receiver);
        }
    }

    fn execute_frames(
        &mut self,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<(), Failure> {
        loop {
            if let Some(incoming) = &mut self.incoming {
                let (start, end) = self.unread;
                let count = incoming.left().min(end - start);
                if count > 0 {
                    let bytes = &self.buffer[start..start + count];
                    place(incoming, bytes, state);
                    self.unread.0 += count;
                }
                if incoming.left() > 0 {
                    return Ok(());
                }
                let incoming = self.incoming.take().expect("just seen");
                self.placed(incoming, state, receiver)?;
            }
            let (start, end) = self.unread;
            let (header, length) = match Header::decode(&self.buffer[start..end]) {
                Decoded::Header(header, length) => (header, length),
                Decoded::Incomplete => return Ok(()),
                Decoded::ProtocolError => return Err(Failure::ProtocolError),
            };
            self.unread.0 += length;
            self.start_frame(header, state, receiver)?;
            if self.ended {
                return Ok(());
            }
        }
    }

    /// Executes a header's request, or prepares the destination of its payload.
    fn start_frame(
        &mut self,
        header: Header,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<(), Failure> {
        self.acknowledge(header.ack, state)?;
        state.peer_posted(header.credit)?;
        let length = usize::try_from(header.length).map_err(|_| Failure::ProtocolError)?;
        let sink = match header.kind {
            Kind::Write => {
                let wanted = Rights { write: true, ..Rights::NONE };
                match state.grants.check(header.key, header.offset, header.length, wanted) {
                    Ok(slice) => Sink::Region(slice),
                    Err(failure) => return self.refuse(failure, None, state),
                }
            }
            Kind::Send => {
                let receive = state.take_receive()?;
                if length > receive.work.total() {
                    state.complete(receive, Err(Failure::TooLong));
                    return self.refuse(Failure::TooLong, None, state);
                }
                Sink::Receive(receive)
            }
            Kind::Data => {
                let expected =
                    state.operations.local(header.number).is_some_and(|(_, _, n)| n == length)
                        && is_read(state, header.number)
                        && state.operations.take_requested(header.number);
                if !expected {
                    return Err(Failure::ProtocolError);
                }
                Sink::Operation(header.number)
            }
            Kind::Imm => {
                if !(S::IMM_WITHOUT_DATA && header.flag) {
                    return Err(Failure::ProtocolError);
                }
                self.count_executed(false);
                let receive = state.take_receive()?;
                let imm = Some(header.number);
                state.complete(receive, Ok(Done::Received { length, imm }));
                return Ok(());
            }
            Kind::Read => return self.read(header, state),
            Kind::Add | Kind::Swap => return self.atomic(header, state),
            Kind::Old => return old(header, state),
            Kind::Fail => {
                self.failed(header, state);
                return Ok(());
            }
            Kind::AckOnly => return Ok(()),
            Kind::Packet => match self.packet(length, state, receiver)? {
                Some(buffer) => Sink::Packet(buffer),
                None => return Ok(()),
            },
        };
        let imm = header.flag.then_some(header.number);
        self.incoming = Some(Incoming { length, imm, placed: 0, sink });
        Ok(())
    }

    /// Takes a packet that was read ahead; otherwise returns a buffer for it.
    fn packet(
        &mut self,
        length: usize,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if !state.packets.fits(length) {
            return Err(Failure::ProtocolError);
        }
        let (start, end) = self.unread;
        if end - start < length {
            let mut buffer = state.packet_buffers.take();
            buffer.resize(length, 0);
            return Ok(Some(buffer));
        }
        self.unread.0 += length;
        self.count_executed(false);
        state.packet_arrived(&self.buffer[start..start + length], receiver);
        Ok(None)
    }

    /// Finishes a frame whose payload is complete.
    fn placed(
        &mut self,
        incoming: Incoming,
        state: &mut LaneState,
        receiver: &mut dyn PacketReceiver,
    ) -> Result<(), Failure> {
        let Incoming { length, imm, sink, .. } = incoming;
        let received = Done::Received { length, imm };
        match sink {
            Sink::Operation(id) => state.complete_operation(id, Done::Placed),
            Sink::Packet(bytes) => {
                self.count_executed(false);
                state.packet_arrived(&bytes, receiver);
                state.packet_buffers.give_back(bytes);
            }
            Sink::Receive(receive) => {
                self.count_executed(false);
                state.complete(receive, Ok(received));
            }
            Sink::Region(_) => {
                self.count_executed(imm.is_none());
                match imm {
                    Some(_) => {
                        let receive = state.take_receive()?;
                        state.complete(receive, Ok(received));
                    }
                    None => state.stats.add_peer_operations(1),
                }
            }
        }
        Ok(())
    }

    /// A counted frame was executed.
    #[inline]
    fn count_executed(&mut self, is_write: bool) {
        self.executed = self.executed.wrapping_add(1);
        self.executed_write = is_write;
    }

    #[inline]
    fn acknowledge(&mut self, ack: u32, state: &mut LaneState) -> Result<(), Failure> {
        let count = ack.wrapping_sub(self.acknowledged) as usize;
        if count > self.unacknowledged.len() {
            return Err(Failure::ProtocolError);
        }
        self.acknowledged = ack;
        for _ in 0..count {
            if let Some(id) = self.unacknowledged.pop_front() {
                state.acknowledged(id);
            }
        }
        Ok(())
    }

    fn read(&mut self, header: Header, state: &mut LaneState) -> Result<(), Failure> {
        let wanted = Rights { read: true, ..Rights::NONE };
        match state.grants.check(header.key, header.offset, header.length, wanted) {
            Ok(slice) => {
                state.stats.add_peer_operations(1);
                let data = Header {
                    number: header.number,
                    length: header.length,
                    ..Header::new(Kind::Data)
                };
                self.answer(data, Payload::Answer(slice))
            }
            Err(failure) => self.refuse(failure, Some(header.number), state),
        }
    }

    fn atomic(&mut self, header: Header, state: &mut LaneState) -> Result<(), Failure> {
        let word = match state.grants.check_word(header.key, header.offset) {
            Ok(word) => word,
            Err(failure) => return self.refuse(failure, Some(header.number), state),
        };
        state.stats.add_peer_operations(1);
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

/// Copies bytes that were read ahead to their destination.
fn place(incoming: &mut Incoming, mut bytes: &[u8], state: &LaneState) {
    let (slices, start) = match &mut incoming.sink {
        Sink::Packet(packet) => {
            packet[incoming.placed..incoming.placed + bytes.len()].copy_from_slice(bytes);
            incoming.placed += bytes.len();
            return;
        }
        Sink::Region(slice) => (std::slice::from_ref(&*slice), 0),
        Sink::Receive(op) => (op.work.local(), 0),
        Sink::Operation(id) => {
            let (slices, start, _) = state.operations.local(*id).unwrap_or_default();
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
        // SAFETY: within the slice, which the sink owns; the buffer is no part of any region.
        unsafe { copy(slice.address().wrapping_add(skip), bytes.as_ptr(), count) };
        incoming.placed += count;
        bytes = &bytes[count..];
        skip = 0;
        if bytes.is_empty() {
            return;
        }
    }
}

fn is_read(state: &LaneState, id: u32) -> bool {
    state.operations.op(id).is_some_and(|op| matches!(op.work, Work::Read { .. }))
}

/// The answer to an atomic operation.
fn old(header: Header, state: &mut LaneState) -> Result<(), Failure> {
    let old = state.operations.op(header.number).and_then(|op| match &op.work {
        Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => Some(old.clone()),
        _ => None,
    });
    let old = old.ok_or(Failure::ProtocolError)?;
    if !state.operations.take_requested(header.number) {
        return Err(Failure::ProtocolError);
    }
    old.region().memory().store(old.offset(), header.length);
    state.complete_operation(header.number, Done::Old(header.length));
    Ok(())
}

/// The maximum read in one poll, so that sending is not delayed. Small in tests, to cover what
/// is left for the next poll.
const MAX_BYTES_PER_POLL: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// More requests in flight than a well-behaved peer sends.
const MAX_ANSWERS: usize = 1 << 16;
