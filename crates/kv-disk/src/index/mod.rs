//! The index: where each key's value is in the log. An SQLite database that one thread fills, behind the log, and that
//! any number of threads read.
//!
//! It holds nothing that the log does not have, and is not synced with each change: after a power loss it may be older than
//! the log, which says what to add. Each row has a checksum.

mod other_version;
mod reader;
mod rows;
mod writer;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;

use crate::error::{Error, ErrorKind};
use crate::position::Position;

pub(crate) use other_version::{DatabaseHeader, OtherIndex, has_other_version};
pub(crate) use reader::{ExpiredValue, IndexReader};
pub(crate) use writer::IndexWriter;

/// SQLite's `application_id` of our databases: "WLKV".
const APPLICATION: i64 = 0x574c_4b56;
/// The version of the tables. An index of another version is made again from the log; 1 and 2 are those of databases that had the
/// values too (see `upgrade`).
const VERSION: i64 = 4;

/// Versions are stored by [`rows::ordered`].
const TABLES: &str = "
    CREATE TABLE kv (
        key BLOB PRIMARY KEY,
        shard INTEGER,
        version INTEGER NOT NULL,
        expires INTEGER,
        length INTEGER NOT NULL,
        position INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        long INTEGER,
        sum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX changes ON kv (shard, version) WHERE shard IS NOT NULL;
    CREATE INDEX expiring ON kv (expires) WHERE expires IS NOT NULL;
    CREATE INDEX long ON kv (long, length) WHERE long IS NOT NULL;
    CREATE TABLE removals (
        key BLOB PRIMARY KEY,
        shard INTEGER NOT NULL,
        version INTEGER NOT NULL,
        cause INTEGER NOT NULL,
        position INTEGER NOT NULL,
        sum INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX removed ON removals (shard, version);
    CREATE TABLE segments (number INTEGER PRIMARY KEY, live INTEGER NOT NULL, removals INTEGER NOT NULL, sum INTEGER NOT NULL);
    CREATE TABLE log (position INTEGER NOT NULL, batch INTEGER NOT NULL, run INTEGER NOT NULL, sum INTEGER NOT NULL);
";

/// Up to where the log is known: all of it, or what the index has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Where the rest begins; `None`: the index has nothing.
    pub(crate) end: Option<Position>,
    /// The last batch.
    pub(crate) batch: u64,
    /// The last run of a store.
    pub(crate) run: u64,
}

/// How much of a segment is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentUse {
    /// The bytes of records that the index refers to.
    pub(crate) live: u64,
    /// The bytes of records which say that a key has no value, and which the index does not keep.
    pub(crate) removals: u64,
}

/// The checksum of numbers.
fn sum(numbers: &[u64]) -> u32 {
    numbers.iter().fold(0, |sum, number| crc32c::crc32c_append(sum, &number.to_le_bytes()))
}

#[cold]
fn damaged_index() -> Error {
    let text = "read from the index: checksum mismatch — the index is damaged: stop the store, remove wirelane.db, \
                wirelane.db-wal and wirelane.db-shm, and start it: the index is made again from the log";
    Error::new(ErrorKind::Damaged, text)
}

fn failed_read(error: rusqlite::Error) -> Error {
    Error::of("read from the index", &error)
}

/// Creates an empty file that only its owner may read, whatever the mode of the directory. SQLite gives its log the
/// same mode.
pub(crate) fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

pub(crate) fn pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
}

/// Whether the database has no tables: the process that created it died first.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Refuses a database of another program, or with tables of another version.
fn check_format(connection: &Connection, path: &Path) -> Result<(), Error> {
    let call = format!("open {}", path.display());
    let failed = |error| Error::of(&call, &error);
    if is_empty(connection).map_err(failed)? {
        return Ok(());
    }
    if pragma(connection, "application_id").map_err(failed)? != APPLICATION {
        let text = format!("{call}: the database is of another program — choose another directory");
        return Err(Error::new(ErrorKind::Refused, text));
    }
    let version = pragma(connection, "user_version").map_err(failed)?;
    if version != VERSION {
        let text = format!(
            "{call}: the index has version {version}, this program reads version {VERSION} — use the version of the \
             program that wrote it, or start a store of this version first; nothing was changed"
        );
        return Err(Error::new(ErrorKind::Refused, text));
    }
    Ok(())
}

const GET: &str =
    "SELECT version, expires, length, position, bytes, long, sum, shard FROM kv WHERE key = ?";
const GET_REMOVAL: &str = "SELECT shard, version, cause, position, sum FROM removals WHERE key = ?";
