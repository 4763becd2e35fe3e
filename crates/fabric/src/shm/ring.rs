//! The two rings as the engine's stream: ours to write, the peer's to read.
//!
//! A ring contains records: a mark with the record's number and length, then its bytes, up to the next
//! cache line. The mark is written last, and the peer polls it where the record will start: so a short
//! message transfers a single cache line.
//!
//! Unsafe here: the parts are raw pointers that the engine guarantees, used only during the call.
#![allow(unsafe_code, reason = "copies raw parts into and out of rings")]

use std::io;
use std::sync::Arc;

use crate::iovec::IoVec;
use crate::segment::control_block::{ControlBlock, PeerControlBlock, RING_BYTES};
use crate::stream_engine::Stream;

pub(super) struct Ring {
    control_block: Arc<ControlBlock>,
    peer: Arc<PeerControlBlock>,
    /// The positions of our next record and of the peer's, in bytes since the start.
    tail: u64,
    head: u64,
    /// Numbers of records written and read: each record's mark has its number.
    written: u32,
    read: u32,
    /// The unread bytes of the peer's record, and their position.
    left: usize,
    at: u64,
    /// The peer's read position when last checked, and ours as published to it.
    peer_head: u64,
    reported: u64,
    /// Whether data was written, or a lot of space freed, since the peer was last notified.
    pub(super) wrote: bool,
    pub(super) freed_space: bool,
    /// The peer's process has ended: its records are read to the end.
    pub(super) peer_ended: bool,
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
            freed_space: false,
            peer_ended: false,
        }
    }

    /// Whether there is data to read, or the end.
    #[inline]
    pub(super) fn has_data(&self) -> bool {
        self.left > 0 || self.peer.mark(self.head) != 0 || self.peer_ended || self.peer.has_ended()
    }

    pub(super) fn has_space(&self) -> bool {
        self.tail.wrapping_sub(self.peer.head()) < (RING_BYTES - 2 * LINE_BYTES) as u64
    }

    /// The maximum length of a record now, by the peer's read position. Two lines stay free: the
    /// record's last one may be partly filled, and the mark of the next record must be cleared before.
    #[inline]
    fn free_bytes(&mut self) -> io::Result<usize> {
        let mut used = self.tail.wrapping_sub(self.peer_head);
        if used > RING_BYTES as u64 / 2 {
            self.peer_head = self.peer.head();
            used = self.tail.wrapping_sub(self.peer_head);
        }
        let free = (RING_BYTES as u64).checked_sub(used).ok_or_else(protocol_error)?;
        Ok((free as usize).saturating_sub(2 * LINE_BYTES).min(MAX_RECORD_BYTES))
    }

    /// Starts the peer's next record, if there is one.
    #[inline]
    fn next_record(&mut self) -> io::Result<bool> {
        let mark = self.peer.mark(self.head);
        if mark == 0 {
            return Ok(false);
        }
        let (number, length) = ((mark >> 32) as u32, mark as u32 as usize);
        if number != record_number(self.read) || length == 0 || length > MAX_RECORD_BYTES {
            return Err(protocol_error());
        }
        self.read = self.read.wrapping_add(1);
        self.left = length;
        self.at = self.head.wrapping_add(MARK_BYTES as u64);
        self.head =
            self.head.wrapping_add((MARK_BYTES + length).next_multiple_of(LINE_BYTES) as u64);
        Ok(true)
    }
}

/// The record number in a mark: never zero.
fn record_number(count: u32) -> u32 {
    count | 1 << 31
}

/// The peer's marks or positions are invalid.
#[cold]
fn protocol_error() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn total(parts: &[IoVec]) -> usize {
    parts.iter().map(|part| part.length).sum()
}

impl Stream for Ring {
    const IMM_WITHOUT_DATA: bool = true;

    const WRITES_AT_ONCE: bool = true;

    /// Small messages are copied twice, which saves calls.
    const READ_AHEAD_BYTES: usize = 256;

    #[inline]
    unsafe fn write(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        let count = total(parts).min(self.free_bytes()?);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.control_block.fill(self.tail.wrapping_add(MARK_BYTES as u64), parts, count) };
        let next = self.tail.wrapping_add((MARK_BYTES + count).next_multiple_of(LINE_BYTES) as u64);
        // A peer that reads our mark polls the next one, which must not have an old value.
        self.control_block.set_mark(next, 0);
        let number = record_number(self.written);
        self.control_block.set_mark(self.tail, u64::from(number) << 32 | count as u64);
        self.written = self.written.wrapping_add(1);
        self.tail = next;
        self.wrote = true;
        Ok(count)
    }

    #[inline]
    unsafe fn read(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        if self.left == 0 && !self.next_record()? {
            let ended = self.peer_ended || self.peer.has_ended();
            // The end is announced after the last record, so check once more.
            let empty = self.peer.mark(self.head) == 0;
            return if ended && empty { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let count = total(parts).min(self.left);
        // SAFETY: guaranteed by the caller.
        unsafe { self.peer.drain(self.at, parts, count) };
        self.at = self.at.wrapping_add(count as u64);
        self.left -= count;
        if self.left == 0 {
            self.freed_space |= self.head / WAKE_STEP_BYTES != self.reported / WAKE_STEP_BYTES;
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

/// A record starts with its mark, at the start of a cache line.
const MARK_BYTES: usize = 8;
const LINE_BYTES: usize = 64;
/// The maximum length of a record: the peer reads the start of a long message while we write the rest.
const MAX_RECORD_BYTES: usize = 32 << 10;

/// A peer that waits for space is woken after this many bytes were read, not after each
/// record, since checking whether it sleeps costs a fence.
const WAKE_STEP_BYTES: u64 = RING_BYTES as u64 / 8;

/// A peer's control block with arbitrary values: reads must stay within the ring and the parts.
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
        // Often a plausible mark.
        let mark =
            if numbers[0] % 4 == 0 { number(0) } else { u64::from(record_number(ring.read)) << 32 };
        theirs.set_mark(ring.head, mark | number(0) >> 44);
        theirs.set_head(number(8));
        let length = usize::from(u16::from_le_bytes([numbers[16], numbers[17]]));
        let mut buffer = vec![0xaa; length + 1];
        let part = IoVec::of_bytes(&mut buffer[..length]);
        // SAFETY: a part of a vector of ours.
        let (read, written) = unsafe { (ring.read(&[part]), ring.write(&[part])) };
        assert!(read.unwrap_or(0) <= length && written.unwrap_or(0) <= length);
        assert_eq!(buffer[length], 0xaa);
    }
}
