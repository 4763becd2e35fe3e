//! An encrypted socket as the engine's stream.
//!
//! Bytes are sent in records: a length (2, little-endian), then a Noise transport message. They are
//! gathered into a buffer, encrypted, and sent; the peer's records are decrypted into a buffer
//! and scattered from there, so that no byte of a forged record is delivered. What the socket does not accept
//! immediately, and what was decrypted and not yet read, is buffered: see `has_unsent` and `has_unread`.
//!
//! Unsafe here: the parts are raw pointers that the engine guarantees, used only during the call.
#![allow(unsafe_code, reason = "copies raw parts into and out of records")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use snow::TransportState;

use super::noise::{LENGTH_BYTES, TAG_BYTES};
use super::socket::Socket;
use crate::iovec::IoVec;
use crate::memory::copy::copy;
use crate::stream_engine::Stream;

pub(super) struct EncryptedSocket {
    socket: Socket,
    noise: TransportState,
    /// A record's bytes before encryption.
    plaintext: Box<[u8]>,
    /// Encrypted records, and the range that is not sent yet.
    ciphertext: Box<[u8]>,
    unsent: Range<usize>,
    /// The peer's records as received, and the range that is not decrypted yet.
    received: Box<[u8]>,
    undecrypted: Range<usize>,
    /// A decrypted record of the peer, and the range that is not read yet.
    decrypted: Box<[u8]>,
    unread: Range<usize>,
    /// A record was forged or invalid.
    forged: bool,
}

impl EncryptedSocket {
    pub(super) fn new(socket: Socket, noise: TransportState) -> Self {
        EncryptedSocket {
            socket,
            noise,
            plaintext: vec![0; MAX_PAYLOAD_BYTES].into(),
            ciphertext: vec![0; RECORDS_PER_WRITE * (LENGTH_BYTES + MAX_PAYLOAD_BYTES + TAG_BYTES)]
                .into(),
            unsent: 0..0,
            received: vec![0; 2 * (LENGTH_BYTES + MAX_RECORD_BYTES)].into(),
            undecrypted: 0..0,
            decrypted: vec![0; MAX_RECORD_BYTES].into(),
            unread: 0..0,
            forged: false,
        }
    }

    /// Encrypts the first bytes of `plaintext`, and appends the record to what is to be sent.
    fn encrypt(&mut self, count: usize) -> io::Result<()> {
        let record = &mut self.ciphertext[self.unsent.end..];
        let encrypted =
            self.noise.write_message(&self.plaintext[..count], &mut record[LENGTH_BYTES..]);
        let encrypted = encrypted.map_err(io::Error::other)?;
        record[..LENGTH_BYTES].copy_from_slice(&(encrypted as u16).to_le_bytes());
        self.unsent.end += LENGTH_BYTES + encrypted;
        Ok(())
    }

    /// The peer's next record, if it is complete.
    fn next(&self) -> Option<Range<usize>> {
        let start = self.undecrypted.start + LENGTH_BYTES;
        let length = self.received[self.undecrypted.clone()].first_chunk()?;
        let end = start + usize::from(u16::from_le_bytes(*length));
        (end <= self.undecrypted.end).then_some(start..end)
    }

    /// Decrypts the peer's next record. `false`: it is not complete yet.
    fn decrypt_next(&mut self) -> io::Result<bool> {
        if self.forged {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(record) = self.next() else { return Ok(false) };
        self.undecrypted.start = record.end;
        match self.noise.read_message(&self.received[record], &mut self.decrypted) {
            // An empty record is invalid: with such a peer this loop might not end.
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

    /// Reads from the socket; returns the number of bytes, and whether there may be more.
    fn fetch(&mut self) -> io::Result<(usize, bool)> {
        self.received.copy_within(self.undecrypted.clone(), 0);
        self.undecrypted = 0..self.undecrypted.len();
        let space = IoVec::of_bytes(&mut self.received[self.undecrypted.end..]);
        // SAFETY: a part of our own buffer.
        let count = unsafe { self.socket.read(&[space]) }?;
        self.undecrypted.end += count;
        Ok((count, count == space.length))
    }
}

impl Stream for EncryptedSocket {
    const IMM_WITHOUT_DATA: bool = Socket::IMM_WITHOUT_DATA;

    const WRITES_AT_ONCE: bool = Socket::WRITES_AT_ONCE;

    const READ_AHEAD_BYTES: usize = Socket::READ_AHEAD_BYTES;

    unsafe fn write(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        self.flush_unsent()?;
        let (mut cursor, mut count) = (Cursor::new(parts), 0);
        for _ in 0..RECORDS_PER_WRITE {
            // SAFETY: the parts are readable as the caller guarantees; `plaintext` is not shared.
            let gathered = unsafe { cursor.gather(&mut self.plaintext) };
            if gathered == 0 {
                break;
            }
            self.encrypt(gathered)?;
            count += gathered;
        }
        match self.flush_unsent() {
            // If the socket is full, the bytes are buffered.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    unsafe fn read(&mut self, parts: &[IoVec]) -> io::Result<usize> {
        let (mut cursor, mut count, mut more) = (Cursor::new(parts), 0, true);
        let ended = loop {
            // SAFETY: the parts are writable as the caller guarantees; `decrypted` is not shared.
            let placed = unsafe { cursor.scatter(&self.decrypted[self.unread.clone()]) };
            self.unread.start += placed;
            count += placed;
            if cursor.is_done() {
                return Ok(count);
            }
            let fetched = match self.decrypt_next() {
                Ok(true) => continue,
                // A socket that returned less than requested has no more now.
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
        // The next call returns the end or the error again.
        if count > 0 { Ok(count) } else { ended }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn flush_unsent(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let part = IoVec::of_const(&self.ciphertext[self.unsent.clone()]);
            // SAFETY: a part of our own buffer.
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

impl AsFd for EncryptedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A position in parts, for copies from and to other buffers.
struct Cursor<'a> {
    parts: &'a [IoVec],
    /// The number of bytes of the first part that are done.
    within: usize,
}

impl<'a> Cursor<'a> {
    fn new(parts: &'a [IoVec]) -> Self {
        Cursor { parts, within: 0 }
    }

    fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.length == 0)
    }

    /// The next range, of at most `max_length` bytes.
    fn step(&mut self, max_length: usize) -> Option<IoVec> {
        let part = self.parts.first()?;
        let length = (part.length - self.within).min(max_length);
        let step = IoVec { address: part.address.wrapping_add(self.within), length };
        self.within += length;
        if self.within == part.length {
            self.parts = &self.parts[1..];
            self.within = 0;
        }
        Some(step)
    }

    /// Fills `bytes` from the parts; returns the number of bytes.
    ///
    /// # Safety
    /// Every part is readable, and none is `bytes`.
    unsafe fn gather(&mut self, bytes: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < bytes.len()
            && let Some(part) = self.step(bytes.len() - filled)
        {
            let to = bytes[filled..filled + part.length].as_mut_ptr();
            // SAFETY: readable as the caller guarantees; within `bytes`.
            unsafe { copy(to, part.address, part.length) };
            filled += part.length;
        }
        filled
    }

    /// Copies `bytes` into the parts; returns the number of bytes that fit.
    ///
    /// # Safety
    /// Every part is writable, and none is `bytes`.
    unsafe fn scatter(&mut self, bytes: &[u8]) -> usize {
        let mut placed = 0;
        while placed < bytes.len()
            && let Some(part) = self.step(bytes.len() - placed)
        {
            let from = bytes[placed..placed + part.length].as_ptr();
            // SAFETY: writable as the caller guarantees; within `bytes`.
            unsafe { copy(part.address, from, part.length) };
            placed += part.length;
        }
        placed
    }
}

/// The maximum length of a Noise message.
const MAX_RECORD_BYTES: usize = 65_535;
/// The payload of a record, and the records passed to the kernel in one call. Measured (two
/// cores of a Xeon, writes of 1 MiB, 2026-11): 720 MB/s, 693 with 32 KiB, 681 with 16; more records per
/// call are not faster.
pub(super) const MAX_PAYLOAD_BYTES: usize = MAX_RECORD_BYTES - TAG_BYTES;
const RECORDS_PER_WRITE: usize = 2;
