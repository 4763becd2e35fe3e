//! The index: where each key's value is in the log. An SQLite database that one thread fills, behind the log, and that
//! any number of threads read.
//!
//! It holds nothing that the log does not have, and is not synced with each change: after a power loss it may be older than
//! the log, which says what to add. Each row has a checksum.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as ErrorKindOfIo, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{CachedStatement, Connection, OpenFlags, OptionalExtension, Row as Columns, params};

use crate::change::{KeyState, KeyStates, Removal, Shard};
use crate::error::{Error, ErrorKind};
use crate::metadata::{Metadata, damaged};
use crate::position::Position;
use crate::recent::{ChangeSet, LastChange};
use crate::record::record_bytes;

/// SQLite's `application_id` of our databases: "WLKV".
const APPLICATION: i64 = 0x574c_4b56;
/// The version of the tables. An index of another version is made again from the log; 1 and 2 are those of databases that had the
/// values too (see `upgrade`).
const VERSION: i64 = 4;

/// Versions are stored by [`ordered`].
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

/// A key's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The shard of the key, if the store has shards.
    pub(crate) shard: Option<Shard>,
    pub(crate) metadata: Metadata,
    /// Its record in the log.
    pub(crate) at: Position,
    /// The length of the record.
    pub(crate) bytes: u32,
    /// The number of the value's file, if it is in one of its own.
    pub(crate) long: Option<u64>,
}

/// A key that has no value any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemovedRow {
    pub(crate) shard: Option<Shard>,
    pub(crate) version: u64,
    pub(crate) cause: Removal,
    /// Its record in the log.
    pub(crate) at: Position,
}

/// A value that has expired.
#[derive(Debug)]
pub(crate) struct ExpiredValue {
    pub(crate) shard: Option<Shard>,
    pub(crate) key: Vec<u8>,
    pub(crate) version: u64,
}

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

/// The result of adding changes.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// The segments whose use has changed.
    pub(crate) segments: BTreeMap<u32, SegmentUse>,
    /// Long values that no key refers to any more.
    pub(crate) unused: Vec<u64>,
}

/// The index, open for writing.
pub(crate) struct IndexWriter {
    connection: Connection,
}

/// The index, open for reading.
pub(crate) struct IndexReader {
    connection: Connection,
}

impl IndexWriter {
    /// Opens the index, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let call = format!("open {}", path.display());
        let fresh = !path.exists();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if fresh {
            create_private(path).map_err(|error| Error::of_system(&call, &error))?;
        }
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
        let failed = |error| Error::of(&call, &error);
        if !fresh {
            // Before any change: a database of another program is not modified.
            check_format(&connection, path)?;
        }
        // Synced by checkpoints only: see the module's head.
        let settings = "
            PRAGMA page_size = 4096;
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            PRAGMA wal_autocheckpoint = 0;
            PRAGMA journal_size_limit = 16777216;
            PRAGMA cache_size = -65536;
            PRAGMA temp_store = MEMORY;";
        connection.execute_batch(settings).map_err(failed)?;
        if is_empty(&connection).map_err(failed)? {
            let create = format!(
                "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
            );
            connection.execute_batch(&create).map_err(failed)?;
            // So that the file itself says what it is.
            connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .map_err(failed)?;
        }
        check_format(&connection, path)?;
        Ok(IndexWriter { connection })
    }

    /// Adds changes, all or none. `uses` is the use of the segments before.
    pub(crate) fn apply(
        &mut self,
        frozen: &ChangeSet,
        uses: &BTreeMap<u32, SegmentUse>,
        last_run: u64,
    ) -> Result<Applied, Error> {
        let failed = |error| Error::of("write to the index", &error);
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let applied = self.apply_in_transaction(frozen, uses, last_run).and_then(|applied| {
            self.connection.execute_batch("COMMIT")?;
            Ok(applied)
        });
        applied.map_err(|error| {
            // SQLite may have rolled back by itself.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            failed(error)
        })
    }

    fn apply_in_transaction(
        &self,
        frozen: &ChangeSet,
        uses: &BTreeMap<u32, SegmentUse>,
        last_run: u64,
    ) -> rusqlite::Result<Applied> {
        let mut applied = Applied { unused: frozen.unused.clone(), ..Applied::default() };
        let Applied { segments, unused } = &mut applied;
        let in_use = |segments: &mut BTreeMap<u32, SegmentUse>, number| {
            *segments
                .entry(number)
                .or_insert_with(|| uses.get(&number).copied().unwrap_or_default())
        };
        let connection = &self.connection;
        let mut select = connection.prepare_cached(GET)?;
        let mut put = connection.prepare_cached(PUT)?;
        let mut delete = connection.prepare_cached("DELETE FROM kv WHERE key = ?")?;
        let mut select_removal = connection.prepare_cached(GET_REMOVAL)?;
        let mut put_removal = connection.prepare_cached(PUT_REMOVAL)?;
        let mut delete_removal = connection.prepare_cached("DELETE FROM removals WHERE key = ?")?;
        for (key, change) in &frozen.changes {
            let old =
                select.query_row(params![key], |columns| Ok(read_row(columns, key))).optional()?;
            // A row that is damaged may name what belongs to another key.
            if let Some(Ok(old)) = &old {
                let mut old_use = in_use(segments, old.at.segment);
                old_use.live = old_use.live.saturating_sub(u64::from(old.bytes));
                segments.insert(old.at.segment, old_use);
                unused.extend(old.long.filter(|long| Some(*long) != change.long()));
            }
            let kept = match change.shard() {
                Some(_) => select_removal
                    .query_row(params![key], |columns| Ok(read_removal(columns, key)))
                    .optional()?,
                None => None,
            };
            if let Some(Ok(kept)) = &kept {
                let mut old_use = in_use(segments, kept.at.segment);
                old_use.live = old_use.live.saturating_sub(removal_bytes(key));
                segments.insert(kept.at.segment, old_use);
            }
            match change {
                LastChange::Value(row) => {
                    if kept.is_some() {
                        delete_removal.execute(params![key])?;
                    }
                    let Metadata { version, expires, length } = row.metadata;
                    put.execute(params![
                        key,
                        row.shard,
                        ordered(version),
                        expires.map(|at| at as i64),
                        length as i64,
                        row.at.to_column(),
                        row.bytes,
                        row.long.map(|long| long as i64),
                        row.sum(key)
                    ])?;
                    let mut new_use = in_use(segments, row.at.segment);
                    new_use.live += u64::from(row.bytes);
                    segments.insert(row.at.segment, new_use);
                }
                LastChange::Removed(row) => {
                    if old.is_some() {
                        delete.execute(params![key])?;
                    }
                    let mut new_use = in_use(segments, row.at.segment);
                    match row.kept_in() {
                        None => new_use.removals += removal_bytes(key),
                        Some(shard) => {
                            new_use.live += removal_bytes(key);
                            put_removal.execute(params![
                                key,
                                shard,
                                ordered(row.version),
                                row.cause as u8,
                                row.at.to_column(),
                                row.sum(key)
                            ])?;
                        }
                    }
                    segments.insert(row.at.segment, new_use);
                }
            }
        }
        for (shard, version) in &frozen.forgotten {
            let mut select = connection.prepare_cached(REMOVALS_UNTIL)?;
            let mut rows = select.query(params![shard, ordered(*version)])?;
            while let Some(columns) = rows.next()? {
                let key = columns.get_ref(5)?.as_blob()?;
                if let Ok(row) = read_removal(columns, key) {
                    let mut old_use = in_use(segments, row.at.segment);
                    old_use.live = old_use.live.saturating_sub(removal_bytes(key));
                    // Like one that is not kept.
                    old_use.removals += removal_bytes(key);
                    segments.insert(row.at.segment, old_use);
                }
            }
            let forget = "DELETE FROM removals WHERE shard = ? AND version <= ?";
            connection.prepare_cached(forget)?.execute(params![shard, ordered(*version)])?;
        }
        let mut save =
            connection.prepare_cached("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?)")?;
        for (number, SegmentUse { live, removals }) in segments.iter() {
            let sum = sum(&[u64::from(*number), *live, *removals]);
            save.execute(params![number, *live as i64, *removals as i64, sum])?;
        }
        if let Some(end) = frozen.end {
            connection.prepare_cached("DELETE FROM log")?.execute([])?;
            let insert = "INSERT INTO log VALUES (?, ?, ?, ?)";
            let sum = sum(&[end.to_column() as u64, frozen.batch, last_run]);
            connection.prepare_cached(insert)?.execute(params![
                end.to_column(),
                frozen.batch as i64,
                last_run as i64,
                sum
            ])?;
        }
        Ok(applied)
    }

    /// Forgets segments that were removed from the log.
    pub(crate) fn forget(&self, segments: &[u32]) -> Result<(), Error> {
        let failed = |error| Error::of("write to the index", &error);
        let mut delete = self
            .connection
            .prepare_cached("DELETE FROM segments WHERE number = ?")
            .map_err(failed)?;
        for number in segments {
            delete.execute(params![number]).map_err(failed)?;
        }
        Ok(())
    }

    /// Syncs what was added, and moves it into the database; returns whether all of it was moved.
    pub(crate) fn checkpoint(&self, truncate: bool) -> Result<bool, Error> {
        let mode = if truncate { "TRUNCATE" } else { "PASSIVE" };
        let moved =
            self.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |columns| {
                let counts: (i64, i64, i64) = (columns.get(0)?, columns.get(1)?, columns.get(2)?);
                Ok(counts.0 == 0 && counts.1 == counts.2)
            });
        moved.map_err(|error| Error::of("write to the index", &error))
    }
}

impl IndexReader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let call = format!("open {}", path.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| Error::of(&call, &error))?;
        let settings = "PRAGMA query_only = ON; PRAGMA cache_size = -4096;";
        connection.execute_batch(settings).map_err(|error| Error::of(&call, &error))?;
        check_format(&connection, path)?;
        Ok(IndexReader { connection })
    }

    fn statement(&self, text: &str) -> Result<CachedStatement<'_>, Error> {
        self.connection.prepare_cached(text).map_err(failed_read)
    }

    /// From now on, reads see what there is now.
    pub(crate) fn begin_read(&self) -> Result<(), Error> {
        let begun = self.connection.execute_batch("BEGIN; SELECT count(*) FROM log;");
        begun.map_err(|error| {
            let _ = self.connection.execute_batch("ROLLBACK");
            failed_read(error)
        })
    }

    /// Ends it.
    pub(crate) fn end_read(&self) -> Result<(), Error> {
        self.connection.execute_batch("COMMIT").map_err(failed_read)
    }

    pub(crate) fn log_end(&self) -> Result<LogEnd, Error> {
        let mut statement = self.statement("SELECT position, batch, run, sum FROM log")?;
        let log_end = statement.query_row([], |columns| {
            let number = |at| columns.get::<_, i64>(at).map(|number| number as u64);
            let (end, batch, run) = (number(0)?, number(1)?, number(2)?);
            let log_end = LogEnd { end: Some(Position::from_column(end as i64)), batch, run };
            Ok((log_end, sum(&[end, batch, run]) == columns.get::<_, u32>(3)?))
        });
        match log_end.optional().map_err(failed_read)? {
            None => Ok(LogEnd::default()),
            Some((log_end, true)) => Ok(log_end),
            Some((_, false)) => Err(damaged_index()),
        }
    }

    pub(crate) fn segments(&self) -> Result<BTreeMap<u32, SegmentUse>, Error> {
        let mut statement = self.statement("SELECT number, live, removals, sum FROM segments")?;
        let mut rows = statement.query([]).map_err(failed_read)?;
        let mut uses = BTreeMap::new();
        while let Some(columns) = rows.next().map_err(failed_read)? {
            let number = |at| columns.get::<_, i64>(at).map(|number| number as u64);
            let read = || Ok::<_, rusqlite::Error>((columns.get(0)?, number(1)?, number(2)?));
            let (segment, live, removals): (u32, u64, u64) = read().map_err(failed_read)?;
            let stored: u32 = columns.get(3).map_err(failed_read)?;
            if stored != sum(&[u64::from(segment), live, removals]) {
                return Err(damaged_index());
            }
            uses.insert(segment, SegmentUse { live, removals });
        }
        Ok(uses)
    }

    /// The row of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Row>, Error> {
        let mut statement = self.statement(GET)?;
        let mut rows = statement.query(params![key]).map_err(failed_read)?;
        let row = rows.next().map_err(failed_read)?;
        row.map(|columns| read_row(columns, key)).transpose()
    }

    /// Calls `take` with the rows of keys with a prefix, after a key, in order, while it returns `true`. A row that is
    /// damaged is an error in its place.
    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        after: &[u8],
        mut take: impl FnMut(&[u8], Result<Row, Error>) -> bool,
    ) -> Result<(), Error> {
        let mut statement = self.statement(SCAN)?;
        let mut rows = statement.query(params![after, prefix]).map_err(failed_read)?;
        while let Some(columns) = rows.next().map_err(failed_read)? {
            let key = columns.get_ref(8).and_then(|key| Ok(key.as_blob()?)).map_err(failed_read)?;
            if !key.starts_with(prefix) || !take(key, read_row(columns, key)) {
                break;
            }
        }
        Ok(())
    }

    /// A removal that is kept.
    pub(crate) fn removal(&self, key: &[u8]) -> Result<Option<RemovedRow>, Error> {
        let mut statement = self.statement(GET_REMOVAL)?;
        let mut rows = statement.query(params![key]).map_err(failed_read)?;
        let row = rows.next().map_err(failed_read)?;
        row.map(|columns| read_removal(columns, key)).transpose()
    }

    /// The first changes of a shard after a version, in the order of their versions; at most `max`.
    pub(crate) fn changes_since(
        &self,
        shard: Shard,
        version: u64,
        max: usize,
    ) -> Result<KeyStates, Error> {
        // Both tables as they are at one moment: else a change from one to the other could be missed.
        self.begin_read()?;
        let changes = self.changes_in_transaction(shard, version, max);
        self.end_read()?;
        changes
    }

    fn changes_in_transaction(
        &self,
        shard: Shard,
        version: u64,
        max: usize,
    ) -> Result<KeyStates, Error> {
        let mut changes = Vec::new();
        for select in [VALUES_SINCE, REMOVALS_SINCE] {
            let mut statement = self.statement(select)?;
            let limits = params![shard, ordered(version), i64::try_from(max).unwrap_or(i64::MAX)];
            let mut rows = statement.query(limits).map_err(failed_read)?;
            let is_values = select == VALUES_SINCE;
            let column = if is_values { 8 } else { 5 };
            while let Some(columns) = rows.next().map_err(failed_read)? {
                let key = columns.get_ref(column).and_then(|key| Ok(key.as_blob()?));
                let key = key.map_err(failed_read)?;
                let state = match is_values {
                    true => KeyState::Value(read_row(columns, key)?.metadata),
                    false => read_removal(columns, key)?.state(),
                };
                changes.push((key.into(), state));
            }
        }
        changes.sort_by_key(|(_, state)| state.version());
        changes.truncate(max);
        Ok(changes)
    }

    /// Some values that expired before `now`.
    pub(crate) fn expired(&self, now: u64, max: u32) -> Result<Vec<ExpiredValue>, Error> {
        let select =
            "SELECT key, version, shard FROM kv WHERE expires IS NOT NULL AND expires <= ? LIMIT ?";
        let mut statement = self.statement(select)?;
        let expired = statement.query_map(params![now as i64, max], |columns| {
            let version = from_ordered(columns.get(1)?);
            Ok(ExpiredValue { key: columns.get(0)?, version, shard: columns.get(2)? })
        });
        expired.and_then(Iterator::collect).map_err(failed_read)
    }

    /// Whether any value expires.
    pub(crate) fn has_expiring(&self) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM kv WHERE expires IS NOT NULL)";
        self.statement(select)?.query_row([], |columns| columns.get(0)).map_err(failed_read)
    }

    pub(crate) fn keys(&self) -> Result<u64, Error> {
        let count =
            self.statement("SELECT count(*) FROM kv")?.query_row([], |columns| columns.get(0));
        count.map(|count: i64| count as u64).map_err(failed_read)
    }

    /// Whether a key has a long value in this file.
    pub(crate) fn has_long(&self, long: u64) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM kv WHERE long = ?)";
        let mut statement = self.statement(select)?;
        statement.query_row(params![long as i64], |columns| columns.get(0)).map_err(failed_read)
    }

    /// The bytes of all long values.
    pub(crate) fn long_bytes(&self) -> Result<u64, Error> {
        let select = "SELECT coalesce(sum(length), 0) FROM kv WHERE long IS NOT NULL";
        let bytes = self.statement(select)?.query_row([], |columns| columns.get(0));
        bytes.map(|bytes: i64| bytes as u64).map_err(failed_read)
    }

    /// Errors of the database, as SQLite reports them, and removals that are damaged.
    pub(crate) fn problems(&self) -> Result<Vec<String>, Error> {
        let mut problems = self.damaged_removals()?;
        let mut statement = self.statement("PRAGMA integrity_check(100)")?;
        let mut rows = statement.query([]).map_err(failed_read)?;
        loop {
            let problem = match rows.next() {
                Ok(None) => return Ok(problems),
                Ok(Some(columns)) => columns.get(0).unwrap_or_default(),
                Err(error) => {
                    problems.push(format!("integrity check incomplete: {error}"));
                    return Ok(problems);
                }
            };
            if problem != "ok" {
                problems.push(problem);
            }
        }
    }
}

impl IndexReader {
    fn damaged_removals(&self) -> Result<Vec<String>, Error> {
        let all = "SELECT shard, version, cause, position, sum, key FROM removals";
        let mut statement = self.statement(all)?;
        let mut rows = statement.query([]).map_err(failed_read)?;
        let mut problems = Vec::new();
        // Damage that SQLite sees is told by its own check.
        while let Ok(Some(columns)) = rows.next() {
            let key =
                columns.get_ref(5).ok().and_then(|key| key.as_blob().ok()).unwrap_or_default();
            if read_removal(columns, key).is_err() {
                problems.push(format!("the removal of \"{}\" is damaged", key.escape_ascii()));
            }
        }
        Ok(problems)
    }
}

impl Row {
    fn sum(&self, key: &[u8]) -> u32 {
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
    /// The shard whose copies must learn of it. Each copy lets values expire by itself.
    pub(crate) fn kept_in(&self) -> Option<Shard> {
        self.shard.filter(|_| self.cause != Removal::Expiry)
    }

    pub(crate) fn state(&self) -> KeyState {
        KeyState::Removed { version: self.version, cause: self.cause }
    }

    fn sum(&self, key: &[u8]) -> u32 {
        let shard = self.shard.map_or(0, |shard| u64::from(shard) | 1 << 63);
        let numbers = [shard, self.version, self.cause as u64, self.at.to_column() as u64];
        crc32c::crc32c_append(sum(&numbers), key)
    }
}

/// The length of the record of a removal.
fn removal_bytes(key: &[u8]) -> u64 {
    record_bytes(key.len(), 0) as u64
}

fn read_removal(columns: &Columns<'_>, key: &[u8]) -> Result<RemovedRow, Error> {
    let read = || -> rusqlite::Result<Option<(RemovedRow, u32)>> {
        let Some(cause) = Removal::from_byte(columns.get(2)?) else { return Ok(None) };
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
fn ordered(version: u64) -> i64 {
    (version ^ (1 << 63)) as i64
}

fn from_ordered(column: i64) -> u64 {
    column as u64 ^ (1 << 63)
}

fn read_row(columns: &Columns<'_>, key: &[u8]) -> Result<Row, Error> {
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

/// An index with tables of another version, moved aside while a new one is made from the log.
pub(crate) struct OtherIndex {
    path: PathBuf,
    aside: PathBuf,
}

impl OtherIndex {
    /// Moves an index of another version aside, if there is one. The caller knows that the log has everything: databases of formats
    /// 1 and 2 have no log.
    pub(crate) fn set_aside(path: &Path) -> std::io::Result<Option<Self>> {
        let aside = with_suffix(path, "-other");
        let other = OtherIndex { path: path.to_owned(), aside };
        match DatabaseHeader::read(path)? {
            Some(_) if has_other_version(path) => {
                let _ = std::fs::remove_file(with_suffix(path, "-shm"));
                // The database last: until then it is found again.
                move_if_there(&with_suffix(path, "-wal"), &with_suffix(&other.aside, "-wal"))?;
                std::fs::rename(path, &other.aside)?;
                Ok(Some(other))
            }
            // An attempt was interrupted: the new index goes on.
            _ if other.aside.exists() => Ok(Some(other)),
            _ => Ok(None),
        }
    }

    /// The new index has everything.
    pub(crate) fn remove(self) {
        for suffix in ["-wal", ""] {
            let _ = std::fs::remove_file(with_suffix(&self.aside, suffix));
        }
    }

    /// The log cannot be read: gives the index its name again, for the version of the program that can use it.
    pub(crate) fn restore(self) {
        for suffix in ["-shm", "-wal", ""] {
            let _ = std::fs::remove_file(with_suffix(&self.path, suffix));
        }
        let wals = [&self.aside, &self.path].map(|path| with_suffix(path, "-wal"));
        let _ = move_if_there(&wals[0], &wals[1]);
        let _ = std::fs::rename(&self.aside, &self.path);
    }
}

pub(crate) fn has_other_version(path: &Path) -> bool {
    let header = DatabaseHeader::read(path).ok().flatten();
    header.is_some_and(|header| header.version > 2 && header.version != VERSION)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

fn move_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKindOfIo::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the file of one of our databases says of itself. Not read by SQLite, which would read its log too.
pub(crate) struct DatabaseHeader {
    pub(crate) version: i64,
}

impl DatabaseHeader {
    /// `None`: no file, or not one of our databases.
    pub(crate) fn read(path: &Path) -> std::io::Result<Option<Self>> {
        let mut header = [0; 72];
        match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
            Ok(()) => {}
            Err(error) => match error.kind() {
                ErrorKindOfIo::NotFound | ErrorKindOfIo::UnexpectedEof => return Ok(None),
                _ => return Err(error),
            },
        }
        // The offsets of `user_version` and `application_id`.
        let word =
            |at: usize| header[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let is_ours = i64::from(word(68)) == APPLICATION;
        Ok(is_ours.then(|| DatabaseHeader { version: i64::from(word(60)) }))
    }
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
const SCAN: &str = "SELECT version, expires, length, position, bytes, long, sum, shard, key FROM kv \
                    WHERE key > ?1 AND key >= ?2 ORDER BY key";
const PUT: &str = "INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const VALUES_SINCE: &str = "SELECT version, expires, length, position, bytes, long, sum, shard, key FROM kv \
                            WHERE shard = ? AND version > ? ORDER BY version LIMIT ?";
const GET_REMOVAL: &str = "SELECT shard, version, cause, position, sum FROM removals WHERE key = ?";
const PUT_REMOVAL: &str = "INSERT OR REPLACE INTO removals VALUES (?, ?, ?, ?, ?, ?)";
const REMOVALS_SINCE: &str = "SELECT shard, version, cause, position, sum, key FROM removals \
                              WHERE shard = ? AND version > ? ORDER BY version LIMIT ?";
const REMOVALS_UNTIL: &str = "SELECT shard, version, cause, position, sum, key FROM removals \
                              WHERE shard = ? AND version <= ?";
