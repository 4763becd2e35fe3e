//! Encoding and parsing of requests.

use super::{Destination, Request, Source};
use crate::Condition;
use crate::wire::{ProtocolError, Reader};

impl<'m> Request<'m> {
    /// Appends the request to a batch.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        let mut head = Head { key: self.key().len() as u16, ..Head::default() };
        head.fill(self);
        bytes.extend(head.to_bytes());
        bytes.extend(self.key());
        bytes.extend(self.inline_value());
    }

    /// Parses the next request of a batch.
    pub(in crate::wire) fn parse(reader: &mut Reader<'m>) -> Result<Self, ProtocolError> {
        let head = Head::parse(reader.array()?);
        let key = reader.take(head.key.into())?;
        let destination = match head.flag(IN_REGION) {
            true => Destination::Region { region: head.region, at: head.at },
            false => Destination::Inline,
        };
        let Head { offset, length, handle, sequence, .. } = head;
        let checksum = head.flag(CHECKSUM);
        let (request, used) = match head.op {
            1 => {
                let open_handle = head.flag(OPEN_HANDLE);
                (
                    Request::Get { key, offset, length, destination, open_handle, checksum },
                    USES_KEY
                        | USES_REGION
                        | USES_OFFSET
                        | USES_LENGTH
                        | USES_OPEN_HANDLE
                        | USES_CHECKSUM,
                )
            }
            2 => (
                Request::Read { handle, offset, length, destination, checksum },
                USES_REGION | USES_OFFSET | USES_LENGTH | USES_HANDLE | USES_CHECKSUM,
            ),
            3 => (Request::Close { handle }, USES_HANDLE),
            4 => {
                let source = head.source(reader)?;
                let (ttl, condition) = (head.ttl(), head.condition()?);
                (
                    Request::Put { key, length, source, ttl, condition, sequence },
                    USES_KEY
                        | USES_REGION
                        | USES_LENGTH
                        | USES_SEQUENCE
                        | USES_TTL
                        | USES_CONDITION,
                )
            }
            5 => (Request::Begin { length }, USES_LENGTH),
            6 => {
                let source = head.source(reader)?;
                (
                    Request::Chunk { handle, offset, length, source },
                    USES_REGION | USES_OFFSET | USES_LENGTH | USES_HANDLE,
                )
            }
            7 => {
                let (ttl, condition) = (head.ttl(), head.condition()?);
                (
                    Request::Commit { handle, key, ttl, condition, sequence },
                    USES_KEY | USES_HANDLE | USES_SEQUENCE | USES_TTL | USES_CONDITION,
                )
            }
            8 => {
                let condition = head.condition()?;
                (
                    Request::Delete { key, condition, sequence },
                    USES_KEY | USES_SEQUENCE | USES_CONDITION,
                )
            }
            9 => (Request::Stat { key }, USES_KEY),
            10 => (
                Request::List { prefix: key, cursor: handle, length },
                USES_KEY | USES_LENGTH | USES_HANDLE,
            ),
            _ => return Err("unknown request type"),
        };
        head.check_unused(used)?;
        Ok(request)
    }

    /// Replaces the handles in the requests of a batch by [`Request::NO_HANDLE`]. Handles are valid on one connection: on
    /// the next one the same number may be another read handle or staged value.
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

    /// Whether it names a read handle or a staged value.
    fn has_handle(&self) -> bool {
        matches!(
            self,
            Request::Read { .. }
                | Request::Close { .. }
                | Request::Chunk { .. }
                | Request::Commit { .. }
        )
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
            Request::Get { offset, length, destination, open_handle, checksum, .. } => {
                (self.op, self.offset, self.length) = (1, offset, length);
                self.flags |= if open_handle { OPEN_HANDLE } else { 0 };
                self.flags |= if checksum { CHECKSUM } else { 0 };
                self.set_destination(destination);
            }
            Request::Read { handle, offset, length, destination, checksum } => {
                (self.op, self.offset, self.length, self.handle) = (2, offset, length, handle);
                self.flags |= if checksum { CHECKSUM } else { 0 };
                self.set_destination(destination);
            }
            Request::Close { handle } => (self.op, self.handle) = (3, handle),
            Request::Put { length, source, ttl, condition, sequence, .. } => {
                (self.op, self.length, self.sequence) = (4, length, sequence);
                self.set_put_options(ttl, condition);
                self.set_source(source);
            }
            Request::Begin { length } => (self.op, self.length) = (5, length),
            Request::Chunk { handle, offset, length, source } => {
                (self.op, self.handle, self.offset, self.length) = (6, handle, offset, length);
                self.set_source(source);
            }
            Request::Commit { handle, ttl, condition, sequence, .. } => {
                (self.op, self.handle, self.sequence) = (7, handle, sequence);
                self.set_put_options(ttl, condition);
            }
            Request::Delete { condition, sequence, .. } => {
                (self.op, self.sequence) = (8, sequence);
                self.set_put_options(None, condition);
            }
            Request::Stat { .. } => self.op = 9,
            Request::List { cursor, length, .. } => {
                (self.op, self.handle, self.length) = (10, cursor, length);
            }
        }
    }

    fn set_destination(&mut self, destination: Destination) {
        if let Destination::Region { region, at } = destination {
            (self.region, self.at) = (region, at);
            self.flags |= IN_REGION;
        }
    }

    fn set_source(&mut self, source: Source<'_>) {
        if let Source::Region { region, at } = source {
            self.set_destination(Destination::Region { region, at });
        }
    }

    fn set_put_options(&mut self, ttl: Option<u64>, condition: Condition) {
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
        if self.flag(IN_REGION) {
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
    fn check_unused(&self, used: u16) -> Result<(), ProtocolError> {
        let has = |field: u16, filled: bool| if filled { field } else { 0 };
        let in_region = self.flag(IN_REGION);
        let filled = has(USES_KEY, self.key != 0)
            | has(USES_REGION, in_region)
            | has(USES_OFFSET, self.offset != 0)
            | has(USES_LENGTH, self.length != 0)
            | has(USES_SEQUENCE, self.sequence != 0)
            | has(USES_TTL, self.flag(EXPIRES))
            | has(USES_CONDITION, self.flag(IF_ABSENT | IF_VERSION))
            | has(USES_HANDLE, self.handle != 0)
            | has(USES_OPEN_HANDLE, self.flag(OPEN_HANDLE))
            | has(USES_CHECKSUM, self.flag(CHECKSUM));
        let stray = (!in_region && (self.region != 0 || self.at != 0))
            || (!self.flag(EXPIRES) && self.ttl != 0)
            || (!self.flag(IF_VERSION) && self.version != 0)
            || self.flags & !ALL_FLAGS != 0;
        match filled & !used == 0 && !stray {
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

// Flags.
const IN_REGION: u8 = 1;
const OPEN_HANDLE: u8 = 2;
const CHECKSUM: u8 = 4;
const EXPIRES: u8 = 8;
const IF_ABSENT: u8 = 16;
const IF_VERSION: u8 = 32;
const ALL_FLAGS: u8 = 63;

// The fields that a request uses.
const USES_KEY: u16 = 1;
const USES_REGION: u16 = 2;
const USES_OFFSET: u16 = 4;
const USES_LENGTH: u16 = 8;
const USES_SEQUENCE: u16 = 16;
const USES_CONDITION: u16 = 32;
const USES_HANDLE: u16 = 64;
const USES_OPEN_HANDLE: u16 = 128;
const USES_CHECKSUM: u16 = 256;
const USES_TTL: u16 = 512;
