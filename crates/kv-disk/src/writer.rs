//! The writer of a database.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use rustix::fs::statvfs;

use crate::change::{Body, Change};
use crate::checkpointer::Checkpointer;
use crate::disk_reserve::DiskReserve;
use crate::error::{Error, ErrorKind};
use crate::files_in_use::FilesInUse;
use crate::row::{Metadata, RowInfo, chunk_sum, sum};
use crate::schema;

/// Saves changes. A trait, so that tests can replace the disk by one that is full, slow or broken.
pub trait DiskWriter: Send {
    /// The row of a key, if it exists.
    fn row_info(&mut self, key: &[u8]) -> Result<Option<RowInfo>, Error>;

    /// Saves changes in one transaction: when it returns, all are durable, or none was applied (after an error other than
    /// [`ErrorKind::Full`] they may still appear after a crash).
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error>;

    /// An error if the files in use were removed, moved or replaced: then nothing that is saved will be found again.
    fn check_files(&mut self) -> Result<(), Error>;

    /// Gives up chunks whose value will not be put.
    fn discard_chunks(&mut self, owner: u64);

    /// Removes some values that expired before `now`, and some chunks without a row; returns after which pause to
    /// call it again, if there is or will be more to remove.
    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error>;
}

/// SQLite's writer.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    files: FilesInUse,
    reserve: DiskReserve,
    /// Owners of chunks whose value is not yet put; they are in `unreferenced_chunks` until then.
    staged: HashSet<u64>,
    /// The number of values in chunks. While it is 0, a value that is replaced is not checked for chunks.
    long_values: u64,
    /// Bytes saved since the last complete checkpoint.
    log_bytes: u64,
    /// After a checkpoint that was not completed, the log size at which it is tried again.
    retry_at: u64,
    checkpointer: Checkpointer,
    /// Whether there may be something to clean up.
    needs_cleanup: bool,
    /// The number of this run, until it is saved: the disk may be full when the run starts.
    unsaved_run: Option<u64>,
}

impl Writer {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let connection = schema::open_writer(path)?;
        let count = "SELECT count(*) FROM kv WHERE chunks IS NOT NULL";
        let long_values = connection.query_row(count, [], |row| row.get::<_, i64>(0));
        let long_values =
            long_values.map_err(|error| Error::of("count long values", &error))? as u64;
        let checkpointer = Checkpointer::start(path)?;
        let mut writer = Writer {
            connection,
            path: path.to_owned(),
            files: FilesInUse::open(path)?,
            reserve: DiskReserve::open(path.parent().unwrap_or(Path::new("."))),
            staged: HashSet::new(),
            long_values,
            log_bytes: 0,
            retry_at: 0,
            checkpointer,
            needs_cleanup: true,
            unsaved_run: None,
        };
        writer.checkpoint().map(drop).or_else(ignore_full)?;
        Ok(writer)
    }

    /// Returns a number for this run that no earlier run had, at least `min`. It is durable when this returns, or, if the
    /// disk is full, in the same transaction as the first change: so before anything that uses it.
    pub fn begin_run(&mut self, min: u64) -> Result<u64, Error> {
        let failed = |error| Error::of("record the start of the store", &error);
        let last = self
            .connection
            .query_row("SELECT max(number) FROM runs", [], |row| row.get::<_, Option<i64>>(0));
        let last = last.map_err(failed)?.unwrap_or(0) as u64;
        let run = min.max(last + 1);
        self.unsaved_run = Some(run);
        self.transaction("record the start of the store", |_| Ok(())).or_else(ignore_full)?;
        Ok(run)
    }

    /// The number of keys.
    pub fn keys(&self) -> Result<u64, Error> {
        let count = self.connection.query_row("SELECT count(*) FROM kv", [], |row| row.get(0));
        count.map(|count: i64| count as u64).map_err(|error| Error::of("count the keys", &error))
    }

    /// Copies the log into the database; returns whether all of it was copied. Then the log restarts from its
    /// beginning.
    fn checkpoint(&mut self) -> Result<bool, Error> {
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        let complete = self.connection.query_row(checkpoint, [], |row| {
            let (busy, logged, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(busy == 0 && logged == copied)
        });
        let call = || format!("write to {}", self.path.display());
        let complete = complete.map_err(|error| Error::of(&call(), &error))?;
        match complete {
            true => (self.log_bytes, self.retry_at) = (0, 0),
            // A reader uses an older snapshot, or the checkpointer is running.
            false => self.retry_later(),
        }
        Ok(complete)
    }

    /// The log could not be emptied: this is tried again when it has grown by a part of its limit.
    fn retry_later(&mut self) {
        self.retry_at = self.log_bytes + self.max_log_bytes() / 16;
    }

    /// The log size at which the writer completes a checkpoint. On a disk with little space it is small: the database needs as
    /// much space again to take it up, and a log that has filled the disk could not be emptied.
    fn max_log_bytes(&self) -> u64 {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let free =
            statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        (free / 2).clamp(MIN_LOG_BYTES, MAX_LOG_BYTES)
    }

    fn apply(&mut self, change: &Change<'_>) -> rusqlite::Result<()> {
        match *change {
            Change::Put { key, version, expires, length, body } => {
                let metadata = Metadata { version, expires, length };
                let (chunks, value) = match body {
                    Body::Inline(value) => (None, Some(value)),
                    Body::Chunks(owner) => (Some(owner), None),
                };
                let sum = sum(key, &metadata, chunks, value.unwrap_or(&[]));
                self.log_bytes += value.map_or(0, <[u8]>::len) as u64;
                self.unreference_chunks(key)?;
                let row = params![
                    key,
                    version as i64,
                    expires.map(|at| at as i64),
                    length as i64,
                    chunks.map(|owner| owner as i64),
                    sum,
                    value
                ];
                self.statement(PUT)?.execute(row)?;
                if let Some(owner) = chunks {
                    self.long_values += 1;
                    self.statement("DELETE FROM unreferenced_chunks WHERE owner = ?")?
                        .execute(params![owner as i64])?;
                }
            }
            Change::Delete { key } => {
                self.unreference_chunks(key)?;
                self.statement("DELETE FROM kv WHERE key = ?")?.execute(params![key])?;
            }
            Change::Chunk { owner, number, bytes } => {
                if number == 0 {
                    self.statement("INSERT OR IGNORE INTO unreferenced_chunks VALUES (?)")?
                        .execute(params![owner as i64])?;
                    self.staged.insert(owner);
                }
                self.log_bytes += bytes.len() as u64;
                let sum = chunk_sum(owner, number, bytes);
                let insert = "INSERT INTO chunks (owner, number, sum, bytes) VALUES (?, ?, ?, ?)";
                self.statement(insert)?.execute(params![owner as i64, number, sum, bytes])?;
            }
        }
        Ok(())
    }

    /// Records the chunks of a key's value, if it has any, in `unreferenced_chunks`: the value is about to be removed.
    fn unreference_chunks(&mut self, key: &[u8]) -> rusqlite::Result<()> {
        if self.long_values == 0 {
            return Ok(());
        }
        let select = "SELECT chunks FROM kv WHERE key = ? AND chunks IS NOT NULL";
        let owner = self.statement(select)?.query_row(params![key], |row| row.get::<_, i64>(0));
        if let Some(owner) = owner.optional()? {
            self.long_values -= 1;
            self.statement("INSERT OR IGNORE INTO unreferenced_chunks VALUES (?)")?
                .execute(params![owner])?;
        }
        Ok(())
    }

    /// Whether values may be written: the rest of the disk is for deletions.
    fn has_space(&mut self) -> bool {
        let connection = &self.connection;
        self.reserve.is_sufficient(|| {
            let pages =
                connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
            pages.map_or(0, |pages| pages as u64 * schema::PAGE_BYTES)
        })
    }

    /// Removes chunks of values that were deleted until values may be written; returns whether they may.
    fn make_space(&mut self) -> bool {
        for _ in 0..MAX_REMOVALS {
            if self.has_space() {
                return true;
            }
            let mut more = false;
            let removed = self.transaction("remove deleted values", |this| {
                more = this.remove_unreferenced()?;
                Ok(())
            });
            if removed.is_err() || !more {
                break;
            }
        }
        self.has_space()
    }

    /// Does this work; if the disk is full, once more with the space of the reserve. Work that stores values must leave
    /// enough for another reserve.
    fn with_reserve(
        &mut self,
        stores: bool,
        mut work: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match work(self) {
            Err(full) if full.kind() == ErrorKind::Full && self.reserve.release() => {
                // Now the database can take up the log, whose file was perhaps what filled the disk.
                let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
                let busy = self.connection.query_row(truncate, [], |row| row.get::<_, i64>(0));
                if matches!(busy, Ok(0)) {
                    (self.log_bytes, self.retry_at) = (0, 0);
                }
                if stores && !self.make_space() { Err(full) } else { work(self) }
            }
            done => done,
        }
    }

    fn statement(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(text)
    }

    /// Runs `work` in one transaction.
    fn transaction(
        &mut self,
        call: &str,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        let (begin, long_values) =
            (self.connection.execute_batch("BEGIN IMMEDIATE"), self.long_values);
        let result = begin.and_then(|()| {
            if let Some(run) = self.unsaved_run {
                self.statement("INSERT INTO runs VALUES (?)")?.execute(params![run as i64])?;
            }
            work(self)?;
            self.connection.execute_batch("COMMIT")
        });
        if result.is_ok() {
            self.unsaved_run = None;
        }
        result.map_err(|error| {
            // SQLite may have rolled back by itself.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.long_values = long_values;
            Error::of(call, &error)
        })
    }

    /// Removes some expired values; returns whether there may be more.
    fn expire(&mut self, now: u64) -> rusqlite::Result<bool> {
        let keys = {
            let select = "SELECT key FROM kv WHERE expires IS NOT NULL AND expires <= ? LIMIT 256";
            let mut statement = self.connection.prepare_cached(select)?;
            let keys = statement.query_map(params![now as i64], |row| row.get::<_, Vec<u8>>(0))?;
            keys.collect::<rusqlite::Result<Vec<_>>>()?
        };
        keys.iter().try_for_each(|key| self.apply(&Change::Delete { key }))?;
        Ok(keys.len() == 256)
    }

    /// Removes some chunks without a row; returns whether there may be more.
    fn remove_unreferenced(&mut self) -> rusqlite::Result<bool> {
        let mut owners =
            self.connection.prepare_cached("SELECT owner FROM unreferenced_chunks LIMIT 64")?;
        let owners = owners.query_map([], |row| row.get::<_, i64>(0))?;
        let owners = owners.collect::<rusqlite::Result<Vec<i64>>>()?;
        let Some(owner) = owners.into_iter().find(|owner| !self.staged.contains(&(*owner as u64)))
        else {
            return Ok(false);
        };
        let delete =
            "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE owner = ? LIMIT 32)";
        if self.statement(delete)?.execute(params![owner])? < 32 {
            self.statement("DELETE FROM unreferenced_chunks WHERE owner = ?")?
                .execute(params![owner])?;
        }
        Ok(true)
    }
}

impl DiskWriter for Writer {
    fn row_info(&mut self, key: &[u8]) -> Result<Option<RowInfo>, Error> {
        let select = "SELECT version, expires, length, chunks FROM kv WHERE key = ?";
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(|n| n as u64);
        let info = self.statement(select).and_then(|mut statement| {
            let info = statement.query_row(params![key], |row| {
                let expires = row.get::<_, Option<i64>>(1)?.map(|at| at as u64);
                let metadata =
                    Metadata { version: number(row, 0)?, expires, length: number(row, 2)? };
                Ok(RowInfo { metadata, in_chunks: row.get::<_, Option<i64>>(3)?.is_some() })
            });
            info.optional()
        });
        info.map_err(|error| Error::of("find a key on disk", &error))
    }

    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let stores = changes.iter().any(|change| !matches!(change, Change::Delete { .. }));
        if stores && !self.make_space() {
            let text = "write to disk: what is free is kept for deletions — free space on the disk, or delete values";
            return Err(Error::new(ErrorKind::Full, text));
        }
        self.with_reserve(stores, |this| {
            this.transaction("write to disk", |this| {
                changes.iter().try_for_each(|change| this.apply(change))
            })
        })?;
        // Replaced values may have left chunks.
        self.needs_cleanup = true;
        for change in changes {
            if let Change::Put { body: Body::Chunks(owner), .. } = change {
                self.staged.remove(owner);
            }
        }
        // The changes are durable in the log, whether or not a checkpoint succeeds now. The checkpointer copies most of
        // the log concurrently; but only the writer can complete a checkpoint and restart the log.
        if self.log_bytes >= self.max_log_bytes().max(self.retry_at) {
            if self.checkpoint().is_err() {
                self.retry_later();
            }
        } else if (CHECKPOINT_LOG_BYTES..PAUSE_LOG_BYTES).contains(&self.log_bytes) {
            self.checkpointer.request();
        }
        // Before the changes are acknowledged.
        self.check_files()
    }

    fn check_files(&mut self) -> Result<(), Error> {
        self.files.check()
    }

    fn discard_chunks(&mut self, owner: u64) {
        self.needs_cleanup |= self.staged.remove(&owner);
    }

    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        if !self.needs_cleanup {
            return Ok(None);
        }
        let mut more = false;
        self.with_reserve(false, |this| {
            this.transaction("remove expired values", |this| {
                more |= this.expire(now)?;
                more |= this.remove_unreferenced()?;
                Ok(())
            })
        })?;
        if !more {
            let left: rusqlite::Result<bool> = self.connection.query_row(
                "SELECT EXISTS (SELECT 1 FROM kv WHERE expires IS NOT NULL) OR \
                 EXISTS (SELECT 1 FROM unreferenced_chunks)",
                [],
                |row| row.get(0),
            );
            self.needs_cleanup =
                left.map_err(|error| Error::of("find values that expire", &error))?;
            self.checkpoint()?;
            // What was removed may be enough for the reserve.
            self.has_space();
        }
        let pause = if more { Duration::ZERO } else { CLEANUP_PAUSE };
        Ok(self.needs_cleanup.then_some(pause))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // So that the next start has nothing to recover; failure only makes that start slower.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// Ignores `Full`: a store on a full disk can still be read.
fn ignore_full(error: Error) -> Result<(), Error> {
    if error.kind() == ErrorKind::Full { Ok(()) } else { Err(error) }
}

/// An update in place: delete and insert would touch twice as many pages.
const PUT: &str = "INSERT INTO kv (key, version, expires, length, chunks, sum, value) \
                   VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET \
                   version = excluded.version, expires = excluded.expires, length = excluded.length, \
                   chunks = excluded.chunks, sum = excluded.sum, value = excluded.value";
/// The log size from which the checkpointer runs, the one from which it pauses so that it does not block the writer, and
/// the one at which the writer completes the checkpoint.
const CHECKPOINT_LOG_BYTES: u64 = 32 << 20;
const PAUSE_LOG_BYTES: u64 = 96 << 20;
const MAX_LOG_BYTES: u64 = 128 << 20;
/// The same on a disk that is nearly full.
const MIN_LOG_BYTES: u64 = 1 << 20;
/// The values whose chunks are removed before a write is refused.
const MAX_REMOVALS: usize = 64;
/// How long an expired value may stay on the disk, where no reader sees it.
const CLEANUP_PAUSE: Duration = Duration::from_secs(10);
