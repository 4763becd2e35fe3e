//! A row: what is known of a value, and how its checksum is made.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Error, Kind};

/// What is known of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its version.
    pub version: u64,
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// How long it is.
    pub length: u64,
}

/// What a key has, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What is known of the value.
    pub facts: Facts,
    /// Whether its bytes are in pieces.
    pub in_pieces: bool,
}

/// The columns that [`Stored::of`] reads, in this order.
pub(crate) const COLUMNS: &str = "version, expires, length, pieces, sum, value";

/// A row as it was read, its checksum not yet looked at.
pub(crate) struct Stored<'r> {
    pub(crate) facts: Facts,
    pub(crate) pieces: Option<u64>,
    sum: u32,
    /// Its bytes, unless they are in pieces.
    pub(crate) value: &'r [u8],
}

impl<'r> Stored<'r> {
    /// Reads [`COLUMNS`] from the column `first` on.
    pub(crate) fn of(row: &'r Row<'_>, first: usize, key: &[u8]) -> Result<Self, Error> {
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
        let needed = |number: Option<u64>| number.ok_or_else(|| damaged(key));
        Ok(Stored {
            facts: Facts {
                version: needed(number(0)?)?,
                expires: number(1)?,
                length: needed(number(2)?)?,
            },
            pieces: number(3)?,
            sum: needed(number(4)?)? as u32,
            value,
        })
    }

    /// Whether it is what was written.
    pub(crate) fn check(&self, key: &[u8]) -> Result<(), Error> {
        let whole = self.pieces.is_some() || self.value.len() as u64 == self.facts.length;
        match whole && self.sum == sum(key, &self.facts, self.pieces, self.value) {
            true => Ok(()),
            false => Err(damaged(key)),
        }
    }
}

/// The checksum of a row.
pub(crate) fn sum(key: &[u8], facts: &Facts, pieces: Option<u64>, value: &[u8]) -> u32 {
    let mut head = [0; 40];
    let numbers = [
        facts.version,
        facts.expires.map_or(0, |expires| expires | 1 << 63),
        facts.length,
        pieces.map_or(0, |owner| owner | 1 << 63),
        key.len() as u64,
    ];
    for (bytes, number) in head.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    let sum = crc32c::crc32c(&head);
    crc32c::crc32c_append(crc32c::crc32c_append(sum, key), value)
}

/// The checksum of a piece.
pub(crate) fn piece_sum(owner: u64, number: u32, bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&owner.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
    crc32c::crc32c_append(sum, bytes)
}

#[cold]
pub(crate) fn damaged(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    let text = format!(
        "read \"{key}\" from disk: its checksum does not fit, the bytes were damaged after they were \
         written — put it again, or restore a backup; `wirelane kv fsck` finds others"
    );
    Error::new(Kind::Damaged, text)
}
