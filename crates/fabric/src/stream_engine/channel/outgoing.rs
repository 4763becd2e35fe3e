//! Sending frames.
//!
//! Unsafe here: the parts passed to the stream are bytes of this channel, or memory of operations and
//! regions that are owned during the call.
#![allow(unsafe_code, reason = "passes raw parts to the stream")]

use std::io::ErrorKind;

use super::StreamChannel;
use crate::iovec::{IoVec, append};
use crate::op::Failure;
use crate::packets::Packet;
use crate::region::Slice;
use crate::stream_engine::frame::{Header, Kind};
use crate::stream_engine::lane_state::{LaneState, PACKET};
use crate::stream_engine::stream::Stream;

pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) bytes: [u8; Header::MAX_BYTES],
    pub(super) payload: Payload,
}

pub(super) enum Payload {
    /// The local memory of an operation in flight.
    Operation(u32),
    /// Memory of a region, for the peer's request.
    Answer(Slice),
    /// A packet, copied.
    Packet(Vec<u8>),
    None,
}

impl<S: Stream> StreamChannel<S> {
    /// Sends what it can.
    #[inline]
    pub(in crate::stream_engine) fn flush(&mut self, state: &mut LaneState) {
        if self.has_backlog() || self.ended {
            self.flush_backlog(state);
        }
    }

    fn flush_backlog(&mut self, state: &mut LaneState) {
        while !self.queue.is_empty() {
            self.gather(state);
            // SAFETY: `gather` took the parts from frames in the queue, whose memory the queue, the
            // operations and the regions own.
            match unsafe { self.stream.write(&self.parts) } {
                Ok(written) if written > 0 => self.advance(written, state),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.lost = Some(Failure::ProtocolError);
                    return self.stop(state);
                }
                // The reader finds the end, and what the peer sent before it.
                Ok(_) | Err(_) => self.give_up_writing(),
            }
        }
        // Bytes buffered in the stream are sent before its end.
        if self.stream.has_unsent() {
            match self.stream.flush_unsent() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.give_up_writing(),
            }
        }
        if self.ended && !self.finished {
            self.finished = true;
            self.stream.finish();
        }
    }

    /// Sends a packet, or queues a copy of it. [`StreamChannel::flush`] must follow.
    #[inline]
    pub(in crate::stream_engine) fn send_packet(
        &mut self,
        packet: &Packet<'_>,
        state: &mut LaneState,
    ) {
        if self.write_failed || self.closed || self.ended {
            return;
        }
        state.packet_sent(packet.total());
        let header = Header {
            length: packet.total() as u64,
            ack: self.executed,
            credit: state.credit(),
            ..Header::new(Kind::Packet)
        };
        let mut bytes = [0; Header::MAX_BYTES];
        header.encode(&mut bytes);
        if S::WRITES_AT_ONCE && self.queue.is_empty() {
            self.sent = self.write_now(&bytes[..header.kind.header_length()], packet);
            if self.sent == header.frame_length() {
                self.sent = 0;
                self.set_reported(header.ack);
                state.reported(header.credit);
                return self.unacknowledged.push_back(PACKET);
            }
        }
        let mut copied = state.packet_buffers.take();
        packet.copy_to(&mut copied);
        self.queue.push_back(Outgoing { header, bytes, payload: Payload::Packet(copied) });
    }

    /// Writes a packet, as far as the stream takes it; returns the number of bytes.
    #[inline]
    fn write_now(&mut self, header: &[u8], packet: &Packet<'_>) -> usize {
        let parts = [IoVec::of_const(header), IoVec::of_const(packet.head)];
        let written = match packet.body {
            [only] => {
                let address = only.address().wrapping_add(packet.offset);
                let body = IoVec { address, length: packet.length };
                // SAFETY: the parts are bytes of the caller, which it borrows; those of the body are within its slice, as
                // `Packet::check` has found.
                unsafe { self.stream.write(&[parts[0], parts[1], body]) }
            }
            body => {
                self.parts.clear();
                self.parts.extend(parts);
                append(&mut self.parts, body, packet.offset, packet.length);
                // SAFETY: the parts are bytes and slices of the packet, which the caller borrows.
                unsafe { self.stream.write(&self.parts) }
            }
        };
        // An error is found when the rest is written.
        written.unwrap_or(0)
    }

    fn give_up_writing(&mut self) {
        self.write_failed = true;
        self.clear_queue();
        self.stream.close();
    }

    /// Collects the parts of the next frames.
    fn gather(&mut self, state: &LaneState) {
        self.parts.clear();
        let mut skip = self.sent;
        for frame in &mut self.queue {
            if self.parts.len() + 2 > MAX_PARTS {
                break;
            }
            if skip == 0 {
                frame.header.ack = self.executed;
                frame.header.credit = state.credit();
                frame.header.encode(&mut frame.bytes);
            }
            let length = frame.header.kind.header_length();
            if skip < length {
                self.parts.push(IoVec::of_const(&frame.bytes[skip..length]));
            }
            let sent = skip.saturating_sub(length);
            let left = frame.header.payload_length() as usize - sent;
            match &frame.payload {
                Payload::Operation(id) => {
                    let (slices, start, _) = state.operations.local(*id).unwrap_or_default();
                    append(&mut self.parts, slices, start + sent, left);
                }
                Payload::Answer(slice) => {
                    append(&mut self.parts, std::slice::from_ref(slice), sent, left);
                }
                Payload::Packet(bytes) => self.parts.push(IoVec::of_const(&bytes[sent..])),
                Payload::None => {}
            }
            skip = 0;
        }
    }

    /// A frame that carries this acknowledgement was sent.
    #[inline]
    fn set_reported(&mut self, ack: u32) {
        self.reported = ack;
        self.polls_unreported = 0;
    }

    /// Records what was sent.
    fn advance(&mut self, written: usize, state: &mut LaneState) {
        self.sent += written;
        while let Some(frame) = self.queue.front() {
            let length = frame.header.frame_length();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            let frame = self.queue.pop_front().expect("just seen");
            self.set_reported(frame.header.ack);
            state.reported(frame.header.credit);
            match frame.payload {
                Payload::Operation(id) if frame.header.is_counted() => {
                    self.unacknowledged.push_back(id);
                }
                Payload::Operation(id) => state.operations.set_requested(id),
                Payload::Answer(_) => self.answers -= 1,
                Payload::Packet(buffer) => {
                    self.unacknowledged.push_back(PACKET);
                    state.packet_buffers.give_back(buffer);
                }
                Payload::None => {}
            }
        }
    }

    /// Sends acknowledgements and credits to the peer, unless another frame soon would: a frame that is posted within
    /// a few polls includes them for free. `now`: without waiting for such a frame.
    #[inline]
    pub(in crate::stream_engine) fn report(&mut self, state: &mut LaneState, now: bool) {
        if self.executed == self.reported && !state.must_report() {
            self.polls_unreported = 0;
            return;
        }
        self.polls_unreported += 1;
        let may_wait = if self.executed_write { 1 } else { MAX_POLLS_UNREPORTED };
        if (self.polls_unreported > may_wait || now) && self.queue.is_empty() && !self.ended {
            self.push(Header::new(Kind::AckOnly), Payload::None);
            self.flush(state);
            self.polls_unreported = 0;
        }
    }
}

/// The number of polls for which acknowledgements wait for another frame. Those of a write wait for one: an owner that looks
/// at its memory after every poll has answered by then.
const MAX_POLLS_UNREPORTED: u32 = 4;
/// Parts passed to the stream in one call; the kernel accepts up to 1024.
pub(super) const MAX_PARTS: usize = 64;
