//! A row: a value's metadata, and its checksum.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Error, ErrorKind};

/// The metadata of a value: all but its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Its version.
    pub version: u64,
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// Its length in bytes.
    pub length: u64,
}

/// A key's row, without the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowInfo {
    /// The metadata of the value.
    pub metadata: Metadata,
    /// Whether the value is stored in chunks.
    pub in_chunks: bool,
}

/// The columns that [`StoredRow::read`] reads, in this order.
pub(crate) const COLUMNS: &str = "version, expires, length, chunks, sum, value";

/// A row as it was read, its checksum not yet verified.
pub(crate) struct StoredRow<'r> {
    pub(crate) metadata: Metadata,
    pub(crate) chunks: Option<u64>,
    sum: u32,
    /// The value, unless it is in chunks.
    pub(crate) value: &'r [u8],
}

impl<'r> StoredRow<'r> {
    /// Reads [`COLUMNS`] from the column `first` on.
    pub(crate) fn read(row: &'r Row<'_>, first: usize, key: &[u8]) -> Result<Self, Error> {
        let column =
            |at: usize| row.get_ref(first + at).map_err(|error| Error::of("read a row", &error));
        let number = |at: usize| match column(at)? {
            ValueRef::Integer(number) => Ok(Some(number as u64)),
            ValueRef::Null => Ok(None),
            _ => Err(damaged(key)),
        };
        let value = match column(5)? {
            ValueRef::Blob(value) => value,
            ValueRef::Null => &[],
            _ => return Err(damaged(key)),
        };
        let required = |number: Option<u64>| number.ok_or_else(|| damaged(key));
        Ok(StoredRow {
            metadata: Metadata {
                version: required(number(0)?)?,
                expires: number(1)?,
                length: required(number(2)?)?,
            },
            chunks: number(3)?,
            sum: required(number(4)?)? as u32,
            value,
        })
    }

    /// Verifies length and checksum.
    pub(crate) fn check(&self, key: &[u8]) -> Result<(), Error> {
        let is_complete = self.chunks.is_some() || self.value.len() as u64 == self.metadata.length;
        match is_complete && self.sum == sum(key, &self.metadata, self.chunks, self.value) {
            true => Ok(()),
            false => Err(damaged(key)),
        }
    }
}

/// The checksum of a row.
pub(crate) fn sum(key: &[u8], metadata: &Metadata, chunks: Option<u64>, value: &[u8]) -> u32 {
    let mut head = [0; 40];
    let numbers = [
        metadata.version,
        metadata.expires.map_or(0, |expires| expires | 1 << 63),
        metadata.length,
        chunks.map_or(0, |owner| owner | 1 << 63),
        key.len() as u64,
    ];
    for (bytes, number) in head.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    let sum = crc32c::crc32c(&head);
    crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value)
}

/// The checksum of a chunk.
pub(crate) fn chunk_sum(owner: u64, number: u32, bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&owner.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
    crc32c::crc32c_append(sum, bytes)
}

#[cold]
pub(crate) fn damaged(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    let text = format!(
        "read \"{key}\" from disk: checksum mismatch, the value was damaged after it was \
         written — put it again, or restore a backup; `wirelane kv fsck` lists all damaged keys"
    );
    Error::new(ErrorKind::Damaged, text)
}
