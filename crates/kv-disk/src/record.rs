//! A record of the log: one change, with two checksums. The first covers the header, the key and the record's position,
//! so that bytes from elsewhere are never taken for a record; the second covers the value.
//!
//! Layout (little-endian): a header of 64 bytes, the key, the body, zeros up to a multiple of eight bytes.

use crate::change::{RemovalCause, Shard};
use crate::position::Position;

/// What a record says of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// It has a value: the body.
    Value = 1,
    /// It has a long value, in a file of its own: the body is the number of that file.
    LongValue = 2,
    /// It was deleted.
    Deletion = 3,
    /// Its value expired.
    Expiry = 4,
    /// No key: a run of the store began, whose number is the version.
    Run = 5,
    /// Its value was evicted.
    Eviction = 6,
}

impl RecordKind {
    /// Why the key has no value, if the record says that it has none.
    pub(crate) fn removal(self) -> Option<RemovalCause> {
        match self {
            RecordKind::Deletion => Some(RemovalCause::Deletion),
            RecordKind::Expiry => Some(RemovalCause::Expiry),
            RecordKind::Eviction => Some(RemovalCause::Eviction),
            RecordKind::Value | RecordKind::LongValue | RecordKind::Run => None,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => RecordKind::Value,
            2 => RecordKind::LongValue,
            3 => RecordKind::Deletion,
            4 => RecordKind::Expiry,
            5 => RecordKind::Run,
            6 => RecordKind::Eviction,
            _ => return None,
        })
    }
}

impl From<RemovalCause> for RecordKind {
    fn from(removal: RemovalCause) -> Self {
        match removal {
            RemovalCause::Deletion => RecordKind::Deletion,
            RemovalCause::Expiry => RecordKind::Expiry,
            RemovalCause::Eviction => RecordKind::Eviction,
        }
    }
}

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'r> {
    pub(crate) kind: RecordKind,
    /// The part of the key space that it belongs to, if the store has shards.
    pub(crate) shard: Option<Shard>,
    pub(crate) key: &'r [u8],
    pub(crate) version: u64,
    /// In milliseconds since 1970.
    pub(crate) expires: Option<u64>,
    /// The length of the value.
    pub(crate) length: u64,
    pub(crate) body: &'r [u8],
}

/// The header of a record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: RecordKind,
    /// Whether it is the last record of its batch.
    pub(crate) ends_batch: bool,
    pub(crate) shard: Option<Shard>,
    pub(crate) key_bytes: usize,
    pub(crate) body_bytes: usize,
    pub(crate) version: u64,
    pub(crate) expires: Option<u64>,
    pub(crate) length: u64,
    /// The number of its batch: records that were synced together.
    pub(crate) batch: u64,
    sum: u32,
    body_sum: u32,
}

/// The length of a record in the log.
pub(crate) fn record_bytes(key_bytes: usize, body_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + body_bytes).next_multiple_of(ALIGNMENT)
}

impl<'r> Record<'r> {
    /// A key has no value any more.
    pub(crate) fn removal(
        shard: Option<Shard>,
        key: &'r [u8],
        version: u64,
        cause: RemovalCause,
    ) -> Self {
        Record { kind: cause.into(), shard, key, version, expires: None, length: 0, body: &[] }
    }

    /// Appends the record to bytes that are written at `at`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, at: Position, batch: u64, ends_batch: bool) {
        let start = out.len();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[self.kind as u8, u8::from(ends_batch)]);
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.body.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(self.body).to_le_bytes());
        out.extend_from_slice(&self.shard.map_or(NO_SHARD, u32::from).to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.expires.unwrap_or(NEVER).to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&batch.to_le_bytes());
        let sum = header_sum(at, &out[start..], self.key);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.body);
        out.resize(start + record_bytes(self.key.len(), self.body.len()), 0);
    }
}

impl Header {
    /// Reads a header, its checksum not yet verified. `None`: there is none.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word =
            |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let long =
            |at: usize| bytes[at..].first_chunk().map_or(0, |long| u64::from_le_bytes(*long));
        let kind = RecordKind::from_byte(bytes[8])?;
        let shard = match word(20) {
            NO_SHARD => None,
            shard => Some(Shard::try_from(shard).ok()?),
        };
        let body_bytes = word(12) as usize;
        let is_possible = word(0) == MAGIC && bytes[9] < 2 && body_bytes <= MAX_BODY_BYTES;
        is_possible.then(|| Header {
            kind,
            ends_batch: bytes[9] == 1,
            shard,
            key_bytes: usize::from(short(10)),
            body_bytes,
            body_sum: word(16),
            version: long(24),
            expires: Some(long(32)).filter(|at| *at != NEVER),
            length: long(40),
            batch: long(56),
            sum: word(4),
        })
    }

    /// Whether the header and the key are as they were written at this position.
    pub(crate) fn is_intact(&self, at: Position, bytes: &[u8; HEADER_BYTES], key: &[u8]) -> bool {
        self.sum == header_sum(at, bytes, key)
    }

    /// Whether the body is as it was written.
    pub(crate) fn has_body(&self, body: &[u8]) -> bool {
        self.body_sum == crc32c::crc32c(body)
    }

    /// The length of the record in the log.
    pub(crate) fn record_bytes(&self) -> usize {
        record_bytes(self.key_bytes, self.body_bytes)
    }
}

fn header_sum(at: Position, header: &[u8], key: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&at.to_column().to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &header[8..HEADER_BYTES]), key)
}

pub(crate) const HEADER_BYTES: usize = 64;
/// Records begin at multiples of this: a search for them after a damaged one is short.
pub(crate) const ALIGNMENT: usize = 8;
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"WLrc");
/// The column of the shard in a store without shards.
const NO_SHARD: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;
/// Longer values have files of their own.
const MAX_BODY_BYTES: usize = crate::CHUNK_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_only_where_it_was_written() {
        let at = Position { segment: 3, offset: 64 };
        let record = Record {
            kind: RecordKind::Value,
            shard: Some(5),
            key: b"key",
            version: 7,
            expires: Some(9),
            length: 5,
            body: b"value",
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes, at, 12, true);
        assert_eq!(bytes.len(), record_bytes(3, 5));
        let first = bytes.first_chunk().unwrap();
        let header = Header::parse(first).unwrap();
        assert_eq!((header.kind, header.ends_batch, header.batch), (RecordKind::Value, true, 12));
        assert_eq!((header.version, header.expires, header.length), (7, Some(9), 5));
        assert_eq!(header.shard, Some(5));
        assert!(header.is_intact(at, first, b"key") && header.has_body(b"value"));
        assert!(!header.is_intact(at, first, b"kez") && !header.has_body(b"valuf"));
        assert!(!header.is_intact(Position { offset: 72, ..at }, first, b"key"));
        assert_eq!(Header::parse(&[0; HEADER_BYTES]), None, "unwritten");
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = *first;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let intact = Header::parse(&flipped)
                .is_some_and(|header| header.is_intact(at, &flipped, b"key"));
            assert!(!intact, "bit {bit}");
        }
    }
}
