//! The index, open for writing, by one thread.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::rows::{ordered, read_removal, read_row, removal_bytes};
use super::{
    APPLICATION, GET, GET_REMOVAL, SegmentUse, TABLES, VERSION, check_format, create_private,
    is_empty, sum,
};
use crate::error::Error;
use crate::metadata::Metadata;
use crate::unindexed::{ChangeSet, LastChange};

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

const PUT: &str = "INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const PUT_REMOVAL: &str = "INSERT OR REPLACE INTO removals VALUES (?, ?, ?, ?, ?, ?)";
const REMOVALS_UNTIL: &str = "SELECT shard, version, cause, position, sum, key FROM removals \
                              WHERE shard = ? AND version <= ?";
