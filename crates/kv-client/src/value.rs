//! A value that was received.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fabric::Memory;

use crate::receive_buffer::Lease;

/// A value, or a part of one, in the receive buffer. Dropping the last clone frees that part of the buffer.
#[derive(Clone)]
pub struct Value {
    pub(crate) lease: Arc<Lease>,
    /// Where it lies in the receive buffer.
    pub(crate) offset: usize,
    pub(crate) length: usize,
    pub(crate) facts: Facts,
}

/// What is known of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The whole value's length.
    pub length: u64,
    /// Its version.
    pub version: u64,
    /// When it expires, if it does.
    pub expires_in: Option<Duration>,
}

impl Value {
    /// How many bytes are here.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What is known of the whole value.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Copies the bytes out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(0, &mut bytes);
        bytes
    }

    /// Copies bytes from `from` on out.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, from: usize, bytes: &mut [u8]) {
        assert!(from <= self.length && bytes.len() <= self.length - from, "beyond the value's end");
        self.lease.receive_buffer().memory().read(self.offset + from, bytes);
    }

    /// CRC32C of the bytes.
    pub(crate) fn checksum(&self) -> u32 {
        checksum(self.lease.receive_buffer().memory(), self.offset, self.length)
    }
}

/// CRC32C of bytes that a peer may write, a little at a time.
pub(crate) fn checksum(memory: &Memory, offset: usize, length: usize) -> u32 {
    let mut piece = [0; 4096];
    (0..length).step_by(piece.len()).fold(0, |sum, from| {
        let part = &mut piece[..(length - from).min(4096)];
        memory.read(offset + from, part);
        crc32c::crc32c_append(sum, part)
    })
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("length", &self.length).field("facts", &self.facts).finish()
    }
}
