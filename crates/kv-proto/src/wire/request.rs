//! Requests. Each is encoded as 64 bytes, then its key, then an inline value.

use super::{ProtocolError, Reader};
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
        place: Place,
        /// Open a cursor to this version for [`Request::Read`], if more bytes remain.
        keep: bool,
        /// Answer with a checksum of the bytes.
        checksum: bool,
    },
    /// Reads more of a value by a cursor.
    Read {
        /// The cursor.
        handle: u64,
        /// The offset in the value.
        offset: u64,
        /// The maximum length.
        length: u64,
        /// The destination of the bytes.
        place: Place,
        /// Answer with a checksum of the bytes.
        checksum: bool,
    },
    /// Closes a cursor or discards a staged value.
    Close {
        /// The cursor or staged value.
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
    /// Stages a value that is sent in pieces.
    Begin {
        /// The value's length.
        length: u64,
    },
    /// Sends a piece of a staged value.
    Piece {
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
pub enum Place {
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

    /// The bytes of the request in a message.
    pub fn encoded_len(&self) -> usize {
        Self::HEAD + self.key().len() + self.inline_value().len()
    }

    /// The maximum bytes that the store writes after the answers for it.
    pub fn inline_len(&self) -> u64 {
        match *self {
            Request::Get { length, place: Place::Inline, .. }
            | Request::Read { length, place: Place::Inline, .. }
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
            | Request::Piece { .. } => &[],
        }
    }

    fn inline_value(&self) -> &'m [u8] {
        match *self {
            Request::Put { source: Source::Inline(bytes), .. }
            | Request::Piece { source: Source::Inline(bytes), .. } => bytes,
            _ => &[],
        }
    }

    /// A handle that no store issues.
    pub const NO_HANDLE: u64 = u64::MAX;

    /// Replaces the handles in the requests of a batch by [`Request::NO_HANDLE`]. Handles are valid on one connection: on
    /// the next one the same number may be another cursor or staged value.
    pub fn detach_handles(requests: &mut [u8]) -> Result<(), ProtocolError> {
        let mut at = 0;
        while at < requests.len() {
            let mut reader = Reader { bytes: &requests[at..] };
            let request = Request::parse(&mut reader)?;
            let (has_handle, left) = (request.has_handle(), reader.bytes.len());
            if has_handle {
                let handle = at + HANDLE_AT..at + HANDLE_AT + 8;
                requests[handle].copy_from_slice(&Self::NO_HANDLE.to_le_bytes());
            }
            at = requests.len() - left;
        }
        Ok(())
    }

    /// Whether it names a cursor or a staged value.
    fn has_handle(&self) -> bool {
        matches!(
            self,
            Request::Read { .. }
                | Request::Close { .. }
                | Request::Piece { .. }
                | Request::Commit { .. }
        )
    }

    /// Whether its answer may contain a new handle.
    pub fn opens_handle(&self) -> bool {
        matches!(self, Request::Get { keep: true, .. } | Request::Begin { .. })
    }

    /// Appends the request to a batch.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        let mut head = Head { key: self.key().len() as u16, ..Head::default() };
        head.fill(self);
        bytes.extend(head.to_bytes());
        bytes.extend(self.key());
        bytes.extend(self.inline_value());
    }

    /// Parses the next request of a batch.
    pub(super) fn parse(reader: &mut Reader<'m>) -> Result<Self, ProtocolError> {
        let head = Head::parse(reader.array()?);
        let key = reader.take(head.key.into())?;
        let place = match head.flag(APART) {
            true => Place::Region { region: head.region, at: head.at },
            false => Place::Inline,
        };
        let Head { offset, length, handle, sequence, .. } = head;
        let checksum = head.flag(CHECKSUM);
        let (request, used) = match head.op {
            1 => {
                let keep = head.flag(KEEP);
                (
                    Request::Get { key, offset, length, place, keep, checksum },
                    KEY | AT | OFFSET | LENGTH | KEEPS | SUMS,
                )
            }
            2 => (
                Request::Read { handle, offset, length, place, checksum },
                AT | OFFSET | LENGTH | HANDLE | SUMS,
            ),
            3 => (Request::Close { handle }, HANDLE),
            4 => {
                let source = head.source(reader)?;
                let (ttl, condition) = (head.ttl(), head.condition()?);
                (
                    Request::Put { key, length, source, ttl, condition, sequence },
                    KEY | AT | LENGTH | SEQUENCE | EXPIRY | CONDITION,
                )
            }
            5 => (Request::Begin { length }, LENGTH),
            6 => {
                let source = head.source(reader)?;
                (Request::Piece { handle, offset, length, source }, AT | OFFSET | LENGTH | HANDLE)
            }
            7 => {
                let (ttl, condition) = (head.ttl(), head.condition()?);
                (
                    Request::Commit { handle, key, ttl, condition, sequence },
                    KEY | HANDLE | SEQUENCE | EXPIRY | CONDITION,
                )
            }
            8 => {
                let condition = head.condition()?;
                (Request::Delete { key, condition, sequence }, KEY | SEQUENCE | CONDITION)
            }
            9 => (Request::Stat { key }, KEY),
            10 => (Request::List { prefix: key, cursor: handle, length }, KEY | LENGTH | HANDLE),
            _ => return Err("unknown request type"),
        };
        head.only(used)?;
        Ok(request)
    }
}

/// The fields of the fixed part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Head {
    op: u8,
    flags: u8,
    key: u16,
    region: u32,
    at: u64,
    offset: u64,
    length: u64,
    sequence: u64,
    ttl: u64,
    version: u64,
    handle: u64,
}

impl Head {
    fn fill(&mut self, request: &Request<'_>) {
        match *request {
            Request::Get { offset, length, place, keep, checksum, .. } => {
                (self.op, self.offset, self.length) = (1, offset, length);
                self.flags |= if keep { KEEP } else { 0 };
                self.flags |= if checksum { CHECKSUM } else { 0 };
                self.place(place);
            }
            Request::Read { handle, offset, length, place, checksum } => {
                (self.op, self.offset, self.length, self.handle) = (2, offset, length, handle);
                self.flags |= if checksum { CHECKSUM } else { 0 };
                self.place(place);
            }
            Request::Close { handle } => (self.op, self.handle) = (3, handle),
            Request::Put { length, source, ttl, condition, sequence, .. } => {
                (self.op, self.length, self.sequence) = (4, length, sequence);
                self.terms(ttl, condition);
                self.from(source);
            }
            Request::Begin { length } => (self.op, self.length) = (5, length),
            Request::Piece { handle, offset, length, source } => {
                (self.op, self.handle, self.offset, self.length) = (6, handle, offset, length);
                self.from(source);
            }
            Request::Commit { handle, ttl, condition, sequence, .. } => {
                (self.op, self.handle, self.sequence) = (7, handle, sequence);
                self.terms(ttl, condition);
            }
            Request::Delete { condition, sequence, .. } => {
                (self.op, self.sequence) = (8, sequence);
                self.terms(None, condition);
            }
            Request::Stat { .. } => self.op = 9,
            Request::List { cursor, length, .. } => {
                (self.op, self.handle, self.length) = (10, cursor, length);
            }
        }
    }

    fn place(&mut self, place: Place) {
        if let Place::Region { region, at } = place {
            (self.region, self.at) = (region, at);
            self.flags |= APART;
        }
    }

    fn from(&mut self, source: Source<'_>) {
        if let Source::Region { region, at } = source {
            self.place(Place::Region { region, at });
        }
    }

    fn terms(&mut self, ttl: Option<u64>, condition: Condition) {
        if let Some(ttl) = ttl {
            self.ttl = ttl;
            self.flags |= EXPIRES;
        }
        match condition {
            Condition::Always => {}
            Condition::IfAbsent => self.flags |= IF_ABSENT,
            Condition::IfVersion(version) => {
                self.version = version;
                self.flags |= IF_VERSION;
            }
        }
    }

    #[inline]
    fn flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn source<'m>(&self, reader: &mut Reader<'m>) -> Result<Source<'m>, ProtocolError> {
        if self.flag(APART) {
            return Ok(Source::Region { region: self.region, at: self.at });
        }
        let length = usize::try_from(self.length).map_err(|_| "truncated message")?;
        reader.take(length).map(Source::Inline)
    }

    #[inline]
    fn ttl(&self) -> Option<u64> {
        self.flag(EXPIRES).then_some(self.ttl)
    }

    #[inline]
    fn condition(&self) -> Result<Condition, ProtocolError> {
        match (self.flag(IF_ABSENT), self.flag(IF_VERSION)) {
            (false, false) => Ok(Condition::Always),
            (true, false) => Ok(Condition::IfAbsent),
            (false, true) => Ok(Condition::IfVersion(self.version)),
            (true, true) => Err("contradictory conditions"),
        }
    }

    /// Refuses fields and flags that the request does not use.
    #[inline]
    fn only(&self, used: u16) -> Result<(), ProtocolError> {
        let has = |field: u16, filled: bool| if filled { field } else { 0 };
        let apart = self.flag(APART);
        let filled = has(KEY, self.key != 0)
            | has(AT, apart)
            | has(OFFSET, self.offset != 0)
            | has(LENGTH, self.length != 0)
            | has(SEQUENCE, self.sequence != 0)
            | has(EXPIRY, self.flag(EXPIRES))
            | has(CONDITION, self.flag(IF_ABSENT | IF_VERSION))
            | has(HANDLE, self.handle != 0)
            | has(KEEPS, self.flag(KEEP))
            | has(SUMS, self.flag(CHECKSUM));
        let loose = (!apart && (self.region != 0 || self.at != 0))
            || (!self.flag(EXPIRES) && self.ttl != 0)
            || (!self.flag(IF_VERSION) && self.version != 0)
            || self.flags & !KNOWN != 0;
        match filled & !used == 0 && !loose {
            true => Ok(()),
            false => Err("request with fields that it does not use"),
        }
    }

    fn to_bytes(self) -> [u8; Request::HEAD] {
        let mut bytes = [0; Request::HEAD];
        bytes[..2].copy_from_slice(&[self.op, self.flags]);
        bytes[2..4].copy_from_slice(&self.key.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.region.to_le_bytes());
        let words =
            [self.at, self.offset, self.length, self.sequence, self.ttl, self.version, self.handle];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + at * 8..16 + at * 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[inline]
    fn parse(bytes: [u8; Request::HEAD]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Head {
            op: bytes[0],
            flags: bytes[1],
            key: u16::from_le_bytes([bytes[2], bytes[3]]),
            region: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            at: word(8),
            offset: word(16),
            length: word(24),
            sequence: word(32),
            ttl: word(40),
            version: word(48),
            handle: word(HANDLE_AT),
        }
    }
}

/// The offset of the handle.
const HANDLE_AT: usize = 56;

const APART: u8 = 1;
const KEEP: u8 = 2;
const CHECKSUM: u8 = 4;
const EXPIRES: u8 = 8;
const IF_ABSENT: u8 = 16;
const IF_VERSION: u8 = 32;
const KNOWN: u8 = 63;

const KEY: u16 = 1;
const AT: u16 = 2;
const OFFSET: u16 = 4;
const LENGTH: u16 = 8;
const SEQUENCE: u16 = 16;
const CONDITION: u16 = 32;
const HANDLE: u16 = 64;
const KEEPS: u16 = 128;
const SUMS: u16 = 256;
const EXPIRY: u16 = 512;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn examples() -> Vec<Request<'static>> {
        let apart = Place::Region { region: 3, at: 77 };
        let elsewhere = Source::Region { region: 2, at: 5 };
        vec![
            Request::Get {
                key: b"k",
                offset: 1,
                length: 2,
                place: Place::Inline,
                keep: true,
                checksum: false,
            },
            Request::Get {
                key: &[9; 4096],
                offset: 0,
                length: u64::MAX,
                place: apart,
                keep: false,
                checksum: true,
            },
            Request::Read { handle: 4, offset: 8, length: 9, place: apart, checksum: true },
            Request::Close { handle: 6 },
            Request::Put {
                key: b"key",
                length: 5,
                source: Source::Inline(b"value"),
                ttl: Some(0),
                condition: Condition::IfAbsent,
                sequence: 12,
            },
            Request::Put {
                key: b"key",
                length: 1 << 40,
                source: elsewhere,
                ttl: None,
                condition: Condition::IfVersion(0),
                sequence: 13,
            },
            Request::Begin { length: 3 },
            Request::Piece { handle: 4, offset: 6, length: 2, source: Source::Inline(b"ab") },
            Request::Piece { handle: 4, offset: 6, length: 2, source: elsewhere },
            Request::Commit {
                handle: 9,
                key: b"z",
                ttl: Some(5),
                condition: Condition::Always,
                sequence: 14,
            },
            Request::Delete { key: b"z", condition: Condition::IfVersion(8), sequence: 15 },
            Request::Stat { key: b"stat" },
            Request::List { prefix: b"", cursor: 0, length: 4096 },
        ]
    }

    fn parse(bytes: &[u8]) -> Result<Request<'_>, ProtocolError> {
        let mut reader = Reader { bytes };
        let request = Request::parse(&mut reader)?;
        reader.end()?;
        Ok(request)
    }

    #[test]
    fn requests_round_trip() {
        for request in examples() {
            let mut bytes = Vec::new();
            request.put(&mut bytes);
            assert_eq!(bytes.len(), request.encoded_len());
            assert_eq!(parse(&bytes), Ok(request));
        }
    }

    #[test]
    fn detaching_handles_changes_nothing_else() {
        let detached = |request| match request {
            Request::Read { offset, length, place, checksum, .. } => {
                Request::Read { handle: u64::MAX, offset, length, place, checksum }
            }
            Request::Close { .. } => Request::Close { handle: u64::MAX },
            Request::Piece { offset, length, source, .. } => {
                Request::Piece { handle: u64::MAX, offset, length, source }
            }
            Request::Commit { key, ttl, condition, sequence, .. } => {
                Request::Commit { handle: u64::MAX, key, ttl, condition, sequence }
            }
            other => other,
        };
        let mut bytes = Vec::new();
        examples().iter().for_each(|request| request.put(&mut bytes));
        Request::detach_handles(&mut bytes).unwrap();
        let mut reader = Reader { bytes: &bytes };
        for request in examples() {
            assert_eq!(Request::parse(&mut reader), Ok(detached(request)));
        }
        reader.end().unwrap();
        Request::detach_handles(&mut bytes[..70]).expect_err("truncated");
    }

    #[test]
    fn truncated_requests_are_refused() {
        for request in examples() {
            let mut bytes = Vec::new();
            request.put(&mut bytes);
            for cut in 0..bytes.len() {
                parse(&bytes[..cut]).expect_err("truncated");
            }
        }
    }

    #[test]
    fn accepted_bytes_are_encoded_the_same() {
        // With one bit changed, the bytes are refused or are the encoding of another request.
        for request in examples() {
            let mut bytes = Vec::new();
            request.put(&mut bytes);
            for bit in 0..Request::HEAD * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                if let Ok(other) = parse(&bytes) {
                    let mut again = Vec::new();
                    other.put(&mut again);
                    assert_eq!(again, bytes, "bit {bit} of {request:?}");
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
