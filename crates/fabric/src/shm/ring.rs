//! The two rings as the engine's stream: ours to write, the peer's to read.
//!
//! Unsafe here: the parts are raw places that the engine answers for, used during the call alone.
#![allow(unsafe_code, reason = "copies raw parts into and out of rings")]

use std::io;
use std::sync::Arc;

use super::board::{Board, PeerBoard, RING};
use crate::engine::{Part, Stream};

pub(super) struct Ring {
    board: Arc<Board>,
    peer: Arc<PeerBoard>,
    /// Bytes ever written to our ring, and read from the peer's. The boards only repeat them.
    tail: u64,
    head: u64,
    /// How far the peer had read when we looked last.
    peer_head: u64,
    /// Whether something was written, or room made, since the peer was last told.
    pub(super) wrote: bool,
    pub(super) made_room: bool,
    /// The peer's process is gone: what it wrote is read to the end.
    pub(super) orphaned: bool,
}

impl Ring {
    pub(super) fn new(board: Arc<Board>, peer: Arc<PeerBoard>) -> Self {
        Ring {
            board,
            peer,
            tail: 0,
            head: 0,
            peer_head: 0,
            wrote: false,
            made_room: false,
            orphaned: false,
        }
    }

    /// Whether there is something to read, or to know.
    pub(super) fn has_news(&self) -> bool {
        self.peer.tail() != self.head || self.peer.has_ended()
    }

    pub(super) fn has_room(&self) -> bool {
        self.tail.wrapping_sub(self.peer.head()) < RING as u64
    }

    /// Bytes of our ring that are free, by what the peer says it has read.
    fn room(&mut self) -> io::Result<usize> {
        let used = self.tail.wrapping_sub(self.peer_head);
        if used < RING as u64 / 2 {
            return Ok(RING - used as usize);
        }
        self.peer_head = self.peer.head();
        let used = self.tail.wrapping_sub(self.peer_head);
        if used > RING as u64 { Err(nonsense()) } else { Ok(RING - used as usize) }
    }
}

/// The peer's numbers cannot be true.
fn nonsense() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn total(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.length).sum()
}

impl Stream for Ring {
    /// Reading costs no call, so nothing is read ahead.
    const AHEAD: usize = 0;

    unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize> {
        let count = total(parts).min(self.room()?);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: passed on from the caller.
        unsafe { self.board.fill(self.tail, parts, count) };
        self.tail = self.tail.wrapping_add(count as u64);
        self.board.set_tail(self.tail);
        self.wrote = true;
        Ok(count)
    }

    unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize> {
        let there = self.peer.tail().wrapping_sub(self.head);
        if there > RING as u64 {
            return Err(nonsense());
        }
        let count = total(parts).min(there as usize);
        if count == 0 {
            let ended = self.orphaned || self.peer.has_ended();
            // The end is announced after the last byte, so look once more.
            let empty = self.peer.tail() == self.head;
            return if ended && empty { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        // SAFETY: passed on from the caller.
        unsafe { self.peer.drain(self.head, parts, count) };
        self.head = self.head.wrapping_add(count as u64);
        self.board.set_head(self.head);
        self.made_room = true;
        Ok(count)
    }

    fn finish(&mut self) {
        self.board.set_ended();
        self.wrote = true;
    }

    fn close(&mut self) {
        self.finish();
    }
}

/// A peer's board with any numbers on it: what is read stays within the ring and the parts.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let (Ok(ours), Ok(theirs)) = (Board::new(0), Board::new(0)) else { return };
    let Ok(peer) = theirs.file().try_clone_to_owned().and_then(|file| PeerBoard::new(&file)) else {
        return;
    };
    let mut ring = Ring::new(Arc::new(ours), Arc::new(peer));
    for numbers in bytes.chunks_exact(18) {
        let number =
            |at: usize| u64::from_le_bytes(numbers[at..at + 8].try_into().expect("eight bytes"));
        theirs.set_tail(number(0));
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
