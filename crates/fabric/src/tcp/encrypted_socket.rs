//! An encrypted socket as the engine's stream.
//!
//! Bytes go in records: a length (2, little-endian), then so many bytes of Noise's transport. They are
//! gathered into a record of ours, sealed, and sent; records of the peer's are opened in a buffer of ours
//! and scattered from there, so that not a byte of a forged one gets anywhere. What a socket does not take
//! at once, and what was read and not yet asked for, stays here: see `has_unsent` and `has_unread`.
//!
//! Unsafe here: the parts are raw places that the engine answers for, used during the call alone.
#![allow(unsafe_code, reason = "copies raw parts into and out of records")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use snow::TransportState;

use super::noise::{LENGTH, TAG};
use super::socket::Socket;
use crate::engine::Stream;
use crate::iovec::Part;
use crate::memory::copy::copy;

pub(super) struct Sealed {
    socket: Socket,
    noise: TransportState,
    /// A record's bytes before they are sealed.
    clear: Box<[u8]>,
    /// Sealed records, and which bytes of them are still to be sent.
    out: Box<[u8]>,
    unsent: Range<usize>,
    /// The peer's records as they come, and which bytes of them are not opened yet.
    came: Box<[u8]>,
    closed: Range<usize>,
    /// A record of the peer's, and which bytes of it nobody has asked for yet.
    opened: Box<[u8]>,
    unread: Range<usize>,
    /// A record was none of the peer's.
    forged: bool,
}

impl Sealed {
    pub(super) fn new(socket: Socket, noise: TransportState) -> Self {
        Sealed {
            socket,
            noise,
            clear: vec![0; RECORD].into(),
            out: vec![0; BATCH * (LENGTH + RECORD + TAG)].into(),
            unsent: 0..0,
            came: vec![0; 2 * (LENGTH + LONGEST)].into(),
            closed: 0..0,
            opened: vec![0; LONGEST].into(),
            unread: 0..0,
            forged: false,
        }
    }

    /// Seals the first bytes of `clear`, behind what is to be sent already.
    fn seal(&mut self, count: usize) -> io::Result<()> {
        let record = &mut self.out[self.unsent.end..];
        let sealed = self.noise.write_message(&self.clear[..count], &mut record[LENGTH..]);
        let sealed = sealed.map_err(io::Error::other)?;
        record[..LENGTH].copy_from_slice(&(sealed as u16).to_le_bytes());
        self.unsent.end += LENGTH + sealed;
        Ok(())
    }

    /// The peer's next record, if all of it is here.
    fn next(&self) -> Option<Range<usize>> {
        let start = self.closed.start + LENGTH;
        let length = self.came[self.closed.clone()].first_chunk()?;
        let end = start + usize::from(u16::from_le_bytes(*length));
        (end <= self.closed.end).then_some(start..end)
    }

    /// Opens the peer's next record. `false`: it has not come yet.
    fn open(&mut self) -> io::Result<bool> {
        if self.forged {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(record) = self.next() else { return Ok(false) };
        self.closed.start = record.end;
        match self.noise.read_message(&self.came[record], &mut self.opened) {
            // One of nothing is none of ours: by such a peer could keep us here for ever.
            Ok(count) if count > 0 => {
                self.unread = 0..count;
                Ok(true)
            }
            _ => {
                self.forged = true;
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Takes in what has come; says how much, and whether there may be more.
    fn fetch(&mut self) -> io::Result<(usize, bool)> {
        self.came.copy_within(self.closed.clone(), 0);
        self.closed = 0..self.closed.len();
        let room = Part::of_bytes(&mut self.came[self.closed.end..]);
        // SAFETY: a part of a buffer of ours.
        let count = unsafe { self.socket.read(&[room]) }?;
        self.closed.end += count;
        Ok((count, count == room.length))
    }
}

impl Stream for Sealed {
    const NUMBERS_ALONE: bool = Socket::NUMBERS_ALONE;

    const AHEAD: usize = Socket::AHEAD;

    unsafe fn write(&mut self, parts: &[Part]) -> io::Result<usize> {
        self.send_on()?;
        let (mut walk, mut count) = (Walk::new(parts), 0);
        for _ in 0..BATCH {
            // SAFETY: the parts are readable by the caller's word; `clear` is ours alone.
            let gathered = unsafe { walk.gather(&mut self.clear) };
            if gathered == 0 {
                break;
            }
            self.seal(gathered)?;
            count += gathered;
        }
        match self.send_on() {
            // It is taken all the same.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    unsafe fn read(&mut self, parts: &[Part]) -> io::Result<usize> {
        let (mut walk, mut count, mut more) = (Walk::new(parts), 0, true);
        let ended = loop {
            // SAFETY: the parts are writable by the caller's word; `opened` is ours alone.
            let placed = unsafe { walk.scatter(&self.opened[self.unread.clone()]) };
            self.unread.start += placed;
            count += placed;
            if walk.is_over() {
                return Ok(count);
            }
            let fetched = match self.open() {
                Ok(true) => continue,
                // A socket that gave less than asked for has no more now.
                Ok(false) if more => self.fetch(),
                Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
                Err(forged) => Err(forged),
            };
            match fetched {
                Ok((1.., full)) => more = full,
                Ok((0, _)) => break Ok(0),
                Err(error) => break Err(error),
            }
        };
        // Whatever it is that ends it, it is there again the next time.
        if count > 0 { Ok(count) } else { ended }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn send_on(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let part = Part::of_const(&self.out[self.unsent.clone()]);
            // SAFETY: a part of a buffer of ours.
            self.unsent.start += unsafe { self.socket.write(&[part]) }?;
        }
        self.unsent = 0..0;
        Ok(())
    }

    fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.forged || self.next().is_some()
    }

    fn finish(&mut self) {
        self.socket.finish();
    }

    fn close(&mut self) {
        self.unsent = 0..0;
        self.socket.close();
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Goes along parts, by as many bytes at a time as another buffer has.
struct Walk<'a> {
    parts: &'a [Part],
    /// How much of the first is behind us.
    within: usize,
}

impl<'a> Walk<'a> {
    fn new(parts: &'a [Part]) -> Self {
        Walk { parts, within: 0 }
    }

    fn is_over(&self) -> bool {
        self.parts.iter().all(|part| part.length == 0)
    }

    /// The next place, of at most so many bytes.
    fn step(&mut self, most: usize) -> Option<Part> {
        let part = self.parts.first()?;
        let length = (part.length - self.within).min(most);
        let step = Part { address: part.address.wrapping_add(self.within), length };
        self.within += length;
        if self.within == part.length {
            self.parts = &self.parts[1..];
            self.within = 0;
        }
        Some(step)
    }

    /// Fills `bytes` from the parts; says how many there were.
    ///
    /// # Safety
    /// Every part is readable, and none is `bytes`.
    unsafe fn gather(&mut self, bytes: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < bytes.len()
            && let Some(part) = self.step(bytes.len() - filled)
        {
            let to = bytes[filled..filled + part.length].as_mut_ptr();
            // SAFETY: readable by the caller's word; within `bytes`.
            unsafe { copy(to, part.address, part.length) };
            filled += part.length;
        }
        filled
    }

    /// Puts `bytes` into the parts; says how many found room.
    ///
    /// # Safety
    /// Every part is writable, and none is `bytes`.
    unsafe fn scatter(&mut self, bytes: &[u8]) -> usize {
        let mut placed = 0;
        while placed < bytes.len()
            && let Some(part) = self.step(bytes.len() - placed)
        {
            let from = bytes[placed..placed + part.length].as_ptr();
            // SAFETY: writable by the caller's word; within `bytes`.
            unsafe { copy(part.address, from, part.length) };
            placed += part.length;
        }
        placed
    }
}

/// The longest record there can be, by Noise.
const LONGEST: usize = 65_535;
/// How many bytes we seal in one record, and how many records we hand to the kernel at once. Measured (two
/// cores of a Xeon, writes of 1 MiB, 2026-11): 720 MB/s so, 693 with 32 KiB, 681 with 16; more records at
/// once bring nothing.
pub(super) const RECORD: usize = LONGEST - TAG;
const BATCH: usize = 2;
