//! Requests. Each is encoded as 64 bytes, then its key, then an inline value.

mod encoding;
#[cfg(test)]
pub(super) mod tests;

use crate::Condition;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'m> {
    /// Reads a value, or a part of it: up to `length` bytes from `offset` on.
    Get {
        /// The key.
        key: &'m [u8],
        /// The offset in the value.
        offset: u64,
        /// The maximum length.
        length: u64,
        /// The destination of the bytes.
        destination: Destination,
        /// Open a read handle to this version for [`Request::Read`], if more bytes remain.
        open_handle: bool,
        /// Answer with a checksum of the bytes.
        checksum: bool,
    },
    /// Reads more of a value by a read handle.
    Read {
        /// The read handle.
        handle: u64,
        /// The offset in the value.
        offset: u64,
        /// The maximum length.
        length: u64,
        /// The destination of the bytes.
        destination: Destination,
        /// Answer with a checksum of the bytes.
        checksum: bool,
    },
    /// Closes a read handle or discards a staged value.
    Close {
        /// The read handle or staged value.
        handle: u64,
    },
    /// Stores a value.
    Put {
        /// The key.
        key: &'m [u8],
        /// The number of bytes.
        length: u64,
        /// The source of the bytes.
        source: Source<'m>,
        /// Milliseconds until it expires.
        ttl: Option<u64>,
        /// The condition.
        condition: Condition,
        /// The write's sequence in its session.
        sequence: u64,
    },
    /// Stages a value that is sent in chunks.
    Begin {
        /// The value's length.
        length: u64,
    },
    /// Sends a chunk of a staged value.
    Chunk {
        /// The staged value.
        handle: u64,
        /// The offset in the value.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The source of the bytes.
        source: Source<'m>,
    },
    /// Stores a staged value under a key.
    Commit {
        /// The staged value.
        handle: u64,
        /// The key.
        key: &'m [u8],
        /// Milliseconds until it expires.
        ttl: Option<u64>,
        /// The condition.
        condition: Condition,
        /// The write's sequence in its session.
        sequence: u64,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: &'m [u8],
        /// The condition.
        condition: Condition,
        /// The write's sequence in its session.
        sequence: u64,
    },
    /// Reads length, version and expiry of a value.
    Stat {
        /// The key.
        key: &'m [u8],
    },
    /// Lists keys with a prefix, in no order, as data after the answers.
    List {
        /// May be empty.
        prefix: &'m [u8],
        /// 0, or the cursor of the last page.
        cursor: u64,
        /// The maximum bytes of entries.
        length: u64,
    },
}

/// Where the store writes the bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// After the answers.
    Inline,
    /// To a region of the client.
    Region {
        /// Its number.
        region: u32,
        /// The offset.
        at: u64,
    },
}

/// Where the store finds the bytes of a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'m> {
    /// In the message.
    Inline(&'m [u8]),
    /// In a region of the client, which the store reads.
    Region {
        /// Its number.
        region: u32,
        /// The offset.
        at: u64,
    },
}

impl<'m> Request<'m> {
    /// Bytes of a request without its key and inline value.
    pub const HEAD: usize = 64;

    /// A handle that no store issues.
    pub const NO_HANDLE: u64 = u64::MAX;

    /// The bytes of the request in a message.
    pub fn encoded_len(&self) -> usize {
        Self::HEAD + self.key().len() + self.inline_value().len()
    }

    /// The maximum bytes that the store writes after the answers for it.
    pub fn inline_len(&self) -> u64 {
        match *self {
            Request::Get { length, destination: Destination::Inline, .. }
            | Request::Read { length, destination: Destination::Inline, .. }
            | Request::List { length, .. } => length,
            _ => 0,
        }
    }

    /// The sequence of a write; `None` for a read.
    pub fn sequence(&self) -> Option<u64> {
        match *self {
            Request::Put { sequence, .. }
            | Request::Commit { sequence, .. }
            | Request::Delete { sequence, .. } => Some(sequence),
            _ => None,
        }
    }

    fn key(&self) -> &'m [u8] {
        match *self {
            Request::Get { key, .. }
            | Request::Put { key, .. }
            | Request::Commit { key, .. }
            | Request::Delete { key, .. }
            | Request::Stat { key }
            | Request::List { prefix: key, .. } => key,
            Request::Read { .. }
            | Request::Close { .. }
            | Request::Begin { .. }
            | Request::Chunk { .. } => &[],
        }
    }

    fn inline_value(&self) -> &'m [u8] {
        match *self {
            Request::Put { source: Source::Inline(bytes), .. }
            | Request::Chunk { source: Source::Inline(bytes), .. } => bytes,
            _ => &[],
        }
    }

    /// Whether its answer may contain a new handle.
    pub fn opens_handle(&self) -> bool {
        matches!(self, Request::Get { open_handle: true, .. } | Request::Begin { .. })
    }
}
