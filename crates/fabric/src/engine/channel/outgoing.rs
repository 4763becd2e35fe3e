//! Frames out.
//!
//! Unsafe here: the parts handed to the stream are bytes of this channel, or memory of operations and
//! regions that it holds at that time.
#![allow(unsafe_code, reason = "hands raw parts to the stream")]

use std::io::ErrorKind;

use super::Channel;
use crate::engine::core::Core;
use crate::engine::frame::{Header, Kind};
use crate::engine::stream::Stream;
use crate::iovec::{Part, append};
use crate::op::Failure;
use crate::region::Slice;

pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) bytes: [u8; Header::LONGEST],
    pub(super) payload: Payload,
}

pub(super) enum Payload {
    /// None, or that of an operation in flight.
    Operation(u32),
    /// A region's, for a peer that asked.
    Answer(Slice),
    None,
}

impl<S: Stream> Channel<S> {
    /// Sends what it can.
    pub(in crate::engine) fn flush(&mut self, core: &mut Core) {
        while !self.queue.is_empty() {
            self.gather(core);
            // SAFETY: `gather` made the parts of frames in the queue, whose memory the queue, the
            // operations and the regions hold.
            match unsafe { self.stream.write(&self.parts) } {
                Ok(written) if written > 0 => self.advance(written, core),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.lost = Some(Failure::ProtocolError);
                    return self.stop(core);
                }
                // The reader finds the end, and what was said before it.
                Ok(_) | Err(_) => self.give_up_writing(),
            }
        }
        // What the stream took and kept is sent before it ends.
        if self.stream.has_unsent() {
            match self.stream.send_on() {
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

    fn give_up_writing(&mut self) {
        self.broken = true;
        self.forget();
        self.stream.close();
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
                Payload::Operation(flight) => {
                    let (slices, start, _) = core.operations.local(*flight).unwrap_or_default();
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
            self.reported = frame.header.ack;
            core.reported(frame.header.credit);
            match frame.payload {
                Payload::Operation(flight) if frame.header.is_counted() => {
                    self.unacknowledged.push_back(flight);
                }
                Payload::Operation(flight) => core.operations.set_asked(flight),
                Payload::Answer(_) => self.answers -= 1,
                Payload::None => {}
            }
        }
    }

    /// Reports to the peer what it should know, if nothing else would soon: an answer that is posted within
    /// a few polls carries it for nothing. `now`: without waiting for such an answer.
    pub(in crate::engine) fn report(&mut self, core: &mut Core, now: bool) {
        if self.executed == self.reported && !core.must_report() {
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
}

/// For how many polls news wait for a frame that carries them.
const POLLS: u32 = 4;
/// Places handed to the stream in one call; the kernel takes up to 1024.
pub(super) const PARTS: usize = 64;
