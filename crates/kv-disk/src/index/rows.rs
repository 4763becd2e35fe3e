//! Rows as columns of the index, with their checksums.

use rusqlite::Row as Columns;

use super::{damaged_index, sum};
use crate::change::RemovalCause;
use crate::error::Error;
use crate::metadata::{Metadata, damaged};
use crate::position::Position;
use crate::record::record_bytes;
use crate::row::{RemovedRow, Row};

impl Row {
    pub(super) fn sum(&self, key: &[u8]) -> u32 {
        let Metadata { version, expires, length } = self.metadata;
        let mut bytes = [0; 56];
        let numbers = [
            self.shard.map_or(0, |shard| u64::from(shard) | 1 << 63),
            version,
            expires.map_or(0, |expires| expires | 1 << 63),
            length,
            self.at.to_column() as u64,
            self.long.map_or(0, |long| long | 1 << 63),
            u64::from(self.bytes),
        ];
        for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        crc32c::crc32c_append(crc32c::crc32c(&bytes), key)
    }
}

impl RemovedRow {
    pub(super) fn sum(&self, key: &[u8]) -> u32 {
        let shard = self.shard.map_or(0, |shard| u64::from(shard) | 1 << 63);
        let numbers = [shard, self.version, self.cause as u64, self.at.to_column() as u64];
        crc32c::crc32c_append(sum(&numbers), key)
    }
}

/// The length of the record of a removal.
pub(super) fn removal_bytes(key: &[u8]) -> u64 {
    record_bytes(key.len(), 0) as u64
}

pub(super) fn read_removal(columns: &Columns<'_>, key: &[u8]) -> Result<RemovedRow, Error> {
    let read = || -> rusqlite::Result<Option<(RemovedRow, u32)>> {
        let Some(cause) = RemovalCause::from_byte(columns.get(2)?) else { return Ok(None) };
        let (shard, version) = (columns.get(0)?, from_ordered(columns.get(1)?));
        let at = Position::from_column(columns.get(3)?);
        Ok(Some((RemovedRow { shard, version, cause, at }, columns.get(4)?)))
    };
    match read() {
        Ok(Some((row, sum))) if sum == row.sum(key) => Ok(row),
        _ => Err(damaged_index()),
    }
}

/// A version as a column: SQLite's integers are signed, and versions must keep their order.
pub(super) fn ordered(version: u64) -> i64 {
    (version ^ (1 << 63)) as i64
}

pub(super) fn from_ordered(column: i64) -> u64 {
    column as u64 ^ (1 << 63)
}

pub(super) fn read_row(columns: &Columns<'_>, key: &[u8]) -> Result<Row, Error> {
    let read = || -> rusqlite::Result<(Row, u32)> {
        let number = |at| columns.get::<_, i64>(at).map(|number| number as u64);
        let metadata = Metadata {
            version: from_ordered(columns.get(0)?),
            expires: columns.get::<_, Option<i64>>(1)?.map(|at| at as u64),
            length: number(2)?,
        };
        let at = Position::from_column(columns.get(3)?);
        let long = columns.get::<_, Option<i64>>(5)?.map(|long| long as u64);
        let shard = columns.get(7)?;
        Ok((Row { shard, metadata, at, bytes: columns.get(4)?, long }, columns.get(6)?))
    };
    match read() {
        Ok((row, sum)) if sum == row.sum(key) => Ok(row),
        _ => Err(damaged(key)),
    }
}
