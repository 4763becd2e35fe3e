//! Who reads: any number of them, while somebody writes. Each reading sees what was durable when it began.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::PIECE;
use crate::error::{Error, Kind};
use crate::row::{COLUMNS, Facts, Stored, damaged, piece_sum};
use crate::schema;

/// Reads values and keys.
pub struct Reader {
    connection: Connection,
}

/// Where a value goes that is read.
pub trait Sink {
    /// A value of these facts comes. `false`: it is not wanted, or there is no room for it.
    fn begin(&mut self, facts: &Facts) -> bool;
    /// These bytes of it come, from this offset on.
    fn bytes(&mut self, offset: u64, bytes: &[u8]);
}

/// Where values are read from. A trait, so that tests can put something in the disk's place.
pub trait Source: Send {
    /// Reads a key's value. `None`: there is none. `Some(false)`: the sink did not want it.
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error>;

    /// What is known of a key's value, if there is one.
    fn stat(&mut self, key: &[u8]) -> Result<Option<Facts>, Error> {
        let mut facts = Unwanted(None);
        self.read(key, &mut facts)?;
        Ok(facts.0)
    }

    /// Keys with a prefix that come after `after` in order, up to so many and so many bytes of keys, that have
    /// not expired `now`.
    fn list(
        &mut self,
        prefix: &[u8],
        after: &[u8],
        most: (usize, usize),
        now: u64,
    ) -> Result<Listed, Error>;
}

/// Takes the facts and not the value.
struct Unwanted(Option<Facts>);

impl Sink for Unwanted {
    fn begin(&mut self, facts: &Facts) -> bool {
        self.0 = Some(*facts);
        false
    }
    fn bytes(&mut self, _: u64, _: &[u8]) {}
}

/// Some keys, in order, and what is known of them.
pub type Listed = Vec<(Box<[u8]>, Facts)>;

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Reader { connection: schema::open_reader(path)? })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Source for Reader {
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error> {
        let failed = |error: rusqlite::Error| Error::of("read from disk", &error);
        // Pieces must be those of the row, whatever is written meanwhile.
        let view = self.connection.transaction().map_err(failed)?;
        let select = format!("SELECT {COLUMNS} FROM kv WHERE key = ?");
        let mut statement = view.prepare_cached(&select).map_err(failed)?;
        let mut rows = statement.query(params![key]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let stored = Stored::of(row, 0, key)?;
        stored.check(key)?;
        if !sink.begin(&stored.facts) {
            return Ok(Some(false));
        }
        match stored.pieces {
            None => sink.bytes(0, stored.value),
            Some(owner) => pieces(&view, key, &stored.facts, owner, sink)?,
        }
        Ok(Some(true))
    }

    fn list(
        &mut self,
        prefix: &[u8],
        after: &[u8],
        (most, bytes): (usize, usize),
        now: u64,
    ) -> Result<Listed, Error> {
        let failed = |error: rusqlite::Error| Error::of("list the keys on disk", &error);
        let select = "SELECT key, version, expires, length FROM kv WHERE key > ?1 AND key >= ?2 \
                      ORDER BY key";
        let mut statement = self.connection.prepare_cached(select).map_err(failed)?;
        let mut rows = statement.query(params![after, prefix]).map_err(failed)?;
        let (mut listed, mut used) = (Listed::new(), 0);
        while let Some(row) = rows.next().map_err(failed)? {
            let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).map_err(failed)?;
            if !key.starts_with(prefix) || listed.len() >= most || used + key.len() > bytes {
                break;
            }
            let number = |at| row.get::<_, i64>(at).map(|number| number as u64);
            let expires = row.get::<_, Option<i64>>(2).map_err(failed)?.map(|at| at as u64);
            if expires.is_some_and(|at| at <= now) {
                continue;
            }
            used += key.len();
            let facts = Facts {
                version: number(1).map_err(failed)?,
                expires,
                length: number(3).map_err(failed)?,
            };
            listed.push((key.into(), facts));
        }
        Ok(listed)
    }
}

/// Reads the pieces of a value, all of them or none.
pub(crate) fn pieces(
    view: &Connection,
    key: &[u8],
    facts: &Facts,
    owner: u64,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::of("read from disk", &error);
    let select = "SELECT number, sum, bytes FROM pieces WHERE owner = ? ORDER BY number";
    let mut statement = view.prepare_cached(select).map_err(failed)?;
    let mut rows = statement.query(params![owner as i64]).map_err(failed)?;
    let (mut next, mut offset) = (0_u32, 0_u64);
    while let Some(row) = rows.next().map_err(failed)? {
        let (number, sum): (u32, u32) =
            (row.get(0).map_err(|_| damaged(key))?, row.get(1).map_err(|_| damaged(key))?);
        let bytes = row.get_ref(2).and_then(|bytes| Ok(bytes.as_blob()?));
        let bytes = bytes.map_err(|_| damaged(key))?;
        let left = facts.length - offset;
        let fits = number == next && bytes.len() as u64 == left.min(PIECE as u64);
        if !fits || sum != piece_sum(owner, number, bytes) {
            return Err(damaged(key));
        }
        sink.bytes(offset, bytes);
        offset += bytes.len() as u64;
        next += 1;
    }
    match offset == facts.length {
        true => Ok(()),
        false => Err(Error::new(Kind::Damaged, damaged(key).to_string())),
    }
}
