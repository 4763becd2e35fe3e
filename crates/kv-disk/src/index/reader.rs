//! The index, open for reading: any number, while it is written to.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{CachedStatement, Connection, OpenFlags, OptionalExtension, params};

use super::rows::{from_ordered, ordered, read_removal, read_row};
use super::{GET, GET_REMOVAL, LogEnd, SegmentUse, check_format, damaged_index, failed_read, sum};
use crate::change::{KeyState, KeyStates, Shard};
use crate::error::Error;
use crate::position::Position;
use crate::row::{RemovedRow, Row};

/// A value that has expired.
#[derive(Debug)]
pub(crate) struct ExpiredValue {
    pub(crate) shard: Option<Shard>,
    pub(crate) key: Vec<u8>,
    pub(crate) version: u64,
}

/// The index, open for reading.
pub(crate) struct IndexReader {
    connection: Connection,
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

const SCAN: &str = "SELECT version, expires, length, position, bytes, long, sum, shard, key FROM kv \
                    WHERE key > ?1 AND key >= ?2 ORDER BY key";
const VALUES_SINCE: &str = "SELECT version, expires, length, position, bytes, long, sum, shard, key FROM kv \
                            WHERE shard = ? AND version > ? ORDER BY version LIMIT ?";
const REMOVALS_SINCE: &str = "SELECT shard, version, cause, position, sum, key FROM removals \
                              WHERE shard = ? AND version > ? ORDER BY version LIMIT ?";
