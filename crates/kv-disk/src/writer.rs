//! The one who writes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::change::{Body, Change};
use crate::checkpointer::Checkpointer;
use crate::error::{Error, Kind};
use crate::row::{Facts, Known, piece_sum, sum};
use crate::schema;

/// Saves changes. A trait, so that tests can put disks in its place that are full, slow or broken.
pub trait Vault: Send {
    /// What a key has.
    fn known(&mut self, key: &[u8]) -> Result<Option<Known>, Error>;

    /// Saves changes together: when it returns they are durable, or none of them was made (of an error that is not
    /// [`Kind::Full`] a crash may yet decide otherwise).
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error>;

    /// Gives up pieces whose value will not be put.
    fn forsake(&mut self, owner: u64);

    /// Removes some of what expired before `now`, and some pieces that are nobody's; says after which pause there is
    /// more to do, if there will be.
    fn tidy(&mut self, now: u64) -> Result<Option<Duration>, Error>;
}

/// SQLite's writer.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    /// Owners of pieces that are being saved, which are in the trash until their value is put.
    staged: HashSet<u64>,
    /// How many values are in pieces. While there are none, nobody looks whether a value that is replaced has any.
    long: u64,
    /// How many bytes were saved since the log was last written back.
    logged: u64,
    checkpointer: Checkpointer,
    /// Whether something may have to be tidied away.
    untidy: bool,
    /// The number of this run, until it is saved: a disk may be full when the run begins.
    unnoted: Option<u64>,
}

impl Writer {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let connection = schema::open_writer(path)?;
        let count = "SELECT count(*) FROM kv WHERE pieces IS NOT NULL";
        let long = connection.query_row(count, [], |row| row.get::<_, i64>(0));
        let long = long.map_err(|error| Error::of("count long values", &error))? as u64;
        let checkpointer = Checkpointer::start(path)?;
        let (path, staged) = (path.to_owned(), HashSet::new());
        let (logged, untidy, unnoted) = (0, true, None);
        let mut writer =
            Writer { connection, path, staged, long, logged, checkpointer, untidy, unnoted };
        writer.write_back().map(drop).or_else(unless_full)?;
        Ok(writer)
    }

    /// A number that no earlier run had, at least `least`. It is durable when this returns, or on a disk that is full
    /// together with the first change that is saved: so it is where anything is that has it.
    pub fn begin_run(&mut self, least: u64) -> Result<u64, Error> {
        let failed = |error| Error::of("note that the store was started", &error);
        let last = self
            .connection
            .query_row("SELECT max(epoch) FROM runs", [], |row| row.get::<_, Option<i64>>(0));
        let last = last.map_err(failed)?.unwrap_or(0) as u64;
        let epoch = least.max(last + 1);
        self.unnoted = Some(epoch);
        self.together("note that the store was started", |_| Ok(())).or_else(unless_full)?;
        Ok(epoch)
    }

    /// How many keys there are.
    pub fn keys(&self) -> Result<u64, Error> {
        let count = self.connection.query_row("SELECT count(*) FROM kv", [], |row| row.get(0));
        count.map(|count: i64| count as u64).map_err(|error| Error::of("count the keys", &error))
    }

    /// Copies the log into the database; says whether all of it is there. Then the log is used from its beginning
    /// again.
    fn write_back(&mut self) -> Result<bool, Error> {
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        let whole = self.connection.query_row(checkpoint, [], |row| {
            let (busy, logged, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(busy == 0 && logged == copied)
        });
        let call = || format!("write to {}", self.path.display());
        let whole = whole.map_err(|error| Error::of(&call(), &error))?;
        // Somebody reads what is older, or is at it already: soon again.
        self.logged = if whole { 0 } else { self.logged.min(MAX_LOG - AGAIN) };
        Ok(whole)
    }

    fn apply(&mut self, change: &Change<'_>) -> rusqlite::Result<()> {
        match *change {
            Change::Put { key, version, expires, length, body } => {
                let facts = Facts { version, expires, length };
                let (pieces, value) = match body {
                    Body::Here(value) => (None, Some(value)),
                    Body::Pieces(owner) => (Some(owner), None),
                };
                let sum = sum(key, &facts, pieces, value.unwrap_or(&[]));
                self.logged += value.map_or(0, <[u8]>::len) as u64;
                self.discard(key)?;
                let row = params![
                    key,
                    version as i64,
                    expires.map(|at| at as i64),
                    length as i64,
                    pieces.map(|owner| owner as i64),
                    sum,
                    value
                ];
                self.statement(PUT)?.execute(row)?;
                if let Some(owner) = pieces {
                    self.long += 1;
                    self.statement("DELETE FROM trash WHERE owner = ?")?
                        .execute(params![owner as i64])?;
                }
            }
            Change::Delete { key } => {
                self.discard(key)?;
                self.statement("DELETE FROM kv WHERE key = ?")?.execute(params![key])?;
            }
            Change::Piece { owner, number, bytes } => {
                if number == 0 {
                    self.statement("INSERT OR IGNORE INTO trash VALUES (?)")?
                        .execute(params![owner as i64])?;
                    self.staged.insert(owner);
                }
                self.logged += bytes.len() as u64;
                let sum = piece_sum(owner, number, bytes);
                let insert = "INSERT INTO pieces (owner, number, sum, bytes) VALUES (?, ?, ?, ?)";
                self.statement(insert)?.execute(params![owner as i64, number, sum, bytes])?;
            }
        }
        Ok(())
    }

    /// The pieces of a value that is about to go are nobody's then.
    fn discard(&mut self, key: &[u8]) -> rusqlite::Result<()> {
        if self.long == 0 {
            return Ok(());
        }
        let select = "SELECT pieces FROM kv WHERE key = ? AND pieces IS NOT NULL";
        let owner = self.statement(select)?.query_row(params![key], |row| row.get::<_, i64>(0));
        if let Some(owner) = owner.optional()? {
            self.long -= 1;
            self.statement("INSERT OR IGNORE INTO trash VALUES (?)")?.execute(params![owner])?;
        }
        Ok(())
    }

    fn statement(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(text)
    }

    /// Does something as one change, or nothing of it.
    fn together(
        &mut self,
        call: &str,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        let (begun, long) = (self.connection.execute_batch("BEGIN IMMEDIATE"), self.long);
        let done = begun.and_then(|()| {
            if let Some(epoch) = self.unnoted {
                self.statement("INSERT INTO runs VALUES (?)")?.execute(params![epoch as i64])?;
            }
            work(self)?;
            self.connection.execute_batch("COMMIT")
        });
        if done.is_ok() {
            self.unnoted = None;
        }
        done.map_err(|error| {
            // SQLite may have done so by itself.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.long = long;
            Error::of(call, &error)
        })
    }

    /// Some of what has expired; `true` if there may be more.
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

    /// Pieces of nobody's, a few at a time; `true` if there are more.
    fn sweep(&mut self) -> rusqlite::Result<bool> {
        let mut owners = self.connection.prepare_cached("SELECT owner FROM trash LIMIT 64")?;
        let owners = owners.query_map([], |row| row.get::<_, i64>(0))?;
        let owners = owners.collect::<rusqlite::Result<Vec<i64>>>()?;
        let Some(owner) = owners.into_iter().find(|owner| !self.staged.contains(&(*owner as u64)))
        else {
            return Ok(false);
        };
        let delete =
            "DELETE FROM pieces WHERE id IN (SELECT id FROM pieces WHERE owner = ? LIMIT 32)";
        if self.statement(delete)?.execute(params![owner])? < 32 {
            self.statement("DELETE FROM trash WHERE owner = ?")?.execute(params![owner])?;
        }
        Ok(true)
    }
}

impl Vault for Writer {
    fn known(&mut self, key: &[u8]) -> Result<Option<Known>, Error> {
        let select = "SELECT version, expires, length, pieces FROM kv WHERE key = ?";
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(|n| n as u64);
        let known = self.statement(select).and_then(|mut statement| {
            let known = statement.query_row(params![key], |row| {
                let expires = row.get::<_, Option<i64>>(1)?.map(|at| at as u64);
                let facts = Facts { version: number(row, 0)?, expires, length: number(row, 2)? };
                Ok(Known { facts, in_pieces: row.get::<_, Option<i64>>(3)?.is_some() })
            });
            known.optional()
        });
        known.map_err(|error| Error::of("look for a key on disk", &error))
    }

    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.together("write to disk", |this| {
            changes.iter().try_for_each(|change| this.apply(change))
        })?;
        // What was replaced may have left pieces.
        self.untidy = true;
        for change in changes {
            if let Change::Put { body: Body::Pieces(owner), .. } = change {
                self.staged.remove(owner);
            }
        }
        // What was saved is durable in the log, whether or not it can be written back now. Most of that is done by
        // the checkpointer meanwhile; but only the writer can find that all of it is done, and begin the log anew.
        if (WRITE_BACK..QUIET).contains(&self.logged) {
            self.checkpointer.nudge();
        } else if self.logged >= MAX_LOG && self.write_back().is_err() {
            self.logged = MAX_LOG - AGAIN;
        }
        Ok(())
    }

    fn forsake(&mut self, owner: u64) {
        self.untidy |= self.staged.remove(&owner);
    }

    fn tidy(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        if !self.untidy {
            return Ok(None);
        }
        let mut more = false;
        self.together("remove what has expired", |this| {
            more |= this.expire(now)?;
            more |= this.sweep()?;
            Ok(())
        })?;
        if !more {
            let left: rusqlite::Result<bool> = self.connection.query_row(
                "SELECT EXISTS (SELECT 1 FROM kv WHERE expires IS NOT NULL) OR \
                 EXISTS (SELECT 1 FROM trash)",
                [],
                |row| row.get(0),
            );
            self.untidy = left.map_err(|error| Error::of("look what expires", &error))?;
            self.write_back()?;
        }
        let pause = if more { Duration::ZERO } else { EXPIRY };
        Ok(self.untidy.then_some(pause))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // So that the next start has nothing to recover; without it there is only more to do then.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// A disk that is full can be read.
fn unless_full(error: Error) -> Result<(), Error> {
    if error.kind() == Kind::Full { Ok(()) } else { Err(error) }
}

/// A value of the same length is written over the old one, page for page; to delete and insert would touch twice as many.
const PUT: &str = "INSERT INTO kv (key, version, expires, length, pieces, sum, value) \
                   VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET \
                   version = excluded.version, expires = excluded.expires, length = excluded.length, \
                   pieces = excluded.pieces, sum = excluded.sum, value = excluded.value";
/// The log is written back on the side when it has grown by so much, and by the writer itself when by so much.
/// Shortly before that the checkpointer is left alone, so that it is not in the way.
const WRITE_BACK: u64 = 32 << 20;
const QUIET: u64 = 96 << 20;
const MAX_LOG: u64 = 128 << 20;
/// After how much more it is tried again.
const AGAIN: u64 = 8 << 20;
/// How long what has expired may stay on the disk; nobody sees it.
const EXPIRY: Duration = Duration::from_secs(10);
