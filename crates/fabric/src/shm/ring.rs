//! The two rings as the engine's stream: ours to write, the peer's to read.
//!
//! A ring holds records: a mark with the record's number and length, then its bytes, up to the next
//! line. The mark is written last, and the peer waits for it where the record will begin: so a short
//! message is one line of memory that changes hands, with nothing else to look at.
//!
//! Unsafe here: the parts are raw places that the engine answers for, used during the call alone.
#![allow(unsafe_code, reason = "copies raw parts into and out of rings")]

use std::io;
use std::sync::Arc;

use crate::engine::Stream;
use crate::iovec::Part;
use crate::segment::control_block::{ControlBlock, PeerControlBlock, RING};

pub(super) struct Ring {
    control_block: Arc<ControlBlock>,
    peer: Arc<PeerControlBlock>,
    /// Where our next record goes, and where the peer's next is: bytes since the beginning.
    tail: u64,
    head: u64,
    /// How many records were written and read: each carries its number.
    written: u32,
    read: u32,
    /// The bytes of the peer's record that are not read yet, and where they are.
    left: usize,
    at: u64,
    /// How far the peer had read when we looked last, and how far it knows that we have.
    peer_head: u64,
    reported: u64,
    /// Whether something was written, or much room made, since the peer was last told.
    pub(super) wrote: bool,
    pub(super) made_room: bool,
    /// The peer's process is gone: what it wrote is read to the end.
    pub(super) orphaned: bool,
}

impl Ring {
    pub(super) fn new(control_block: Arc<ControlBlock>, peer: Arc<PeerControlBlock>) -> Self {
        Ring {
            control_block,
            peer,
            tail: 0,
            head: 0,
            written: 0,
            read: 0,
            left: 0,
            at: 0,
            peer_head: 0,
            reported: 0,
            wrote: false,
            made_room: false,
            orphaned: false,
        }
    }

    /// Whether there is something to read, or to know.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.left > 0 || self.peer.mark(self.head) != 0 || self.orphaned || self.peer.has_ended()
    }

    pub(super) fn has_room(&self) -> bool {
        self.tail.wrapping_sub(self.peer.head()) < (RING - 2 * LINE) as u64
    }

    /// Bytes that a record may have now, by what the peer says it has read. Two lines stay free: the
    /// record's last may be filled in part, and the mark of the next must be erased beforehand.
    #[inline]
    fn room(&mut self) -> io::Result<usize> {
        let mut used = self.tail.wrapping_sub(self.peer_head);
        if used > RING as u64 / 2 {
            self.peer_head = self.peer.head();
            used = self.tail.wrapping_sub(self.peer_head);
        }
        let free = (RING as u64).checked_sub(used).ok_or_else(protocol_error)?;
        Ok((free as usize).saturating_sub(2 * LINE).min(LONGEST))
    }

    /// Takes up the peer's next record, if there is one.
    #[inline]
    fn take_up(&mut self) -> io::Result<bool> {
        let mark = self.peer.mark(self.head);
        if mark == 0 {
            return Ok(false);
        }
        let (number, length) = ((mark >> 32) as u32, mark as u32 as usize);
        if number != number_of(self.read) || length == 0 || length > LONGEST {
            return Err(protocol_error());
        }
        self.read = self.read.wrapping_add(1);
        self.left = length;
        self.at = self.head.wrapping_add(MARK as u64);
        self.head = self.head.wrapping_add((MARK + length).next_multiple_of(LINE) as u64);
        Ok(true)
    }
}

/// What a record's mark says beside its length: never zero.
fn number_of(count: u32) -> u32 {
    count | 1 << 31
}

/// The peer's marks cannot be true.
#[cold]
fn protocol_error() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn total(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.length).sum()
}

impl Stream for Ring {
    const NUMBERS_ALONE: bool = true;

    /// Small messages are copied twice, in few steps.
    const AHEAD: usize = 256;

    #[inline]
    unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize> {
        let count = total(parts).min(self.room()?);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: passed on from the caller.
        unsafe { self.control_block.fill(self.tail.wrapping_add(MARK as u64), parts, count) };
        let next = self.tail.wrapping_add((MARK + count).next_multiple_of(LINE) as u64);
        // Whoever finds our mark will look for the next one: nothing old may stand there.
        self.control_block.set_mark(next, 0);
        let number = number_of(self.written);
        self.control_block.set_mark(self.tail, u64::from(number) << 32 | count as u64);
        self.written = self.written.wrapping_add(1);
        self.tail = next;
        self.wrote = true;
        Ok(count)
    }

    #[inline]
    unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize> {
        if self.left == 0 && !self.take_up()? {
            let ended = self.orphaned || self.peer.has_ended();
            // The end is announced after the last record, so look once more.
            let empty = self.peer.mark(self.head) == 0;
            return if ended && empty { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let count = total(parts).min(self.left);
        // SAFETY: passed on from the caller.
        unsafe { self.peer.drain(self.at, parts, count) };
        self.at = self.at.wrapping_add(count as u64);
        self.left -= count;
        if self.left == 0 {
            self.made_room |= self.head / STEP != self.reported / STEP;
            self.reported = self.head;
            self.control_block.set_head(self.head);
        }
        Ok(count)
    }

    fn finish(&mut self) {
        self.control_block.set_ended();
        self.wrote = true;
    }

    fn close(&mut self) {
        self.finish();
    }
}

/// A record begins with its mark, at the start of a line.
const MARK: usize = 8;
const LINE: usize = 64;
/// The longest record: of a long message the peer reads the beginning while we write on.
const LONGEST: usize = 32 << 10;

/// Who waits for room has filled the ring: it is worth waking when a part of that was read, not for each
/// record, since looking whether it sleeps costs a fence.
const STEP: u64 = RING as u64 / 8;

/// A peer's control block with any numbers on it: what is read stays within the ring and the parts.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let (Ok(ours), Ok(theirs)) = (ControlBlock::new(0), ControlBlock::new(0)) else { return };
    let Ok(peer) = theirs.file().try_clone_to_owned().and_then(|file| PeerControlBlock::new(&file))
    else {
        return;
    };
    let mut ring = Ring::new(Arc::new(ours), Arc::new(peer));
    for numbers in bytes.chunks_exact(18) {
        let number =
            |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().expect("eight bytes"));
        // Often a mark that could be true.
        let lie =
            if numbers[0] % 4 == 0 { number(0) } else { u64::from(number_of(ring.read)) << 32 };
        theirs.set_mark(ring.head, lie | number(0) >> 44);
        theirs.set_head(number(8));
        let length = usize::from(u16::from_le_bytes([numbers[16], numbers[17]]));
        let mut room = vec![0xaa; length + 1];
        let part = Part::of_bytes(&mut room[..length]);
        // SAFETY: a part of a vector of ours.
        let (read, written) = unsafe { (ring.read(&[part]), ring.write(&[part])) };
        assert!(read.unwrap_or(0) <= length && written.unwrap_or(0) <= length);
        assert_eq!(room[length], 0xaa);
    }
}
