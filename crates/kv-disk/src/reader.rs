//! Readers: any number, concurrent with the writer. Each read sees what was durable when it started.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::CHUNK_BYTES;
use crate::error::Error;
use crate::row::{COLUMNS, Metadata, StoredRow, chunk_sum, damaged};
use crate::schema;

/// Reads values and keys.
pub struct Reader {
    connection: Connection,
}

/// Receives a value that is read.
pub trait Sink {
    /// Called first. `false`: the value is not wanted, or does not fit.
    fn begin(&mut self, metadata: &Metadata) -> bool;
    /// Bytes of the value, from this offset on.
    fn bytes(&mut self, offset: u64, bytes: &[u8]);
}

/// Reads values and keys. A trait, so that tests can replace the disk.
pub trait DiskReader: Send {
    /// Reads a key's value. `None`: no such key. `Some(false)`: the sink did not want it.
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error>;

    /// The metadata of a key's value, if it exists.
    fn stat(&mut self, key: &[u8]) -> Result<Option<Metadata>, Error> {
        let mut metadata = MetadataOnly(None);
        self.read(key, &mut metadata)?;
        Ok(metadata.0)
    }

    /// Keys with a prefix, in order, after `after`, that have not expired at `now`; `max` limits their number and their
    /// total bytes.
    fn list(
        &mut self,
        prefix: &[u8],
        after: &[u8],
        max: (usize, usize),
        now: u64,
    ) -> Result<Listing, Error>;
}

/// Takes the metadata, but not the value.
struct MetadataOnly(Option<Metadata>);

impl Sink for MetadataOnly {
    fn begin(&mut self, metadata: &Metadata) -> bool {
        self.0 = Some(*metadata);
        false
    }
    fn bytes(&mut self, _: u64, _: &[u8]) {}
}

/// Keys in order, with their metadata.
pub type Listing = Vec<(Box<[u8]>, Metadata)>;

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Reader { connection: schema::open_reader(path)? })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl DiskReader for Reader {
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error> {
        let failed = |error: rusqlite::Error| Error::of("read from disk", &error);
        // One transaction: the chunks must belong to the row, whatever is written concurrently.
        let view = self.connection.transaction().map_err(failed)?;
        let select = format!("SELECT {COLUMNS} FROM kv WHERE key = ?");
        let mut statement = view.prepare_cached(&select).map_err(failed)?;
        let mut rows = statement.query(params![key]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let stored = StoredRow::read(row, 0, key)?;
        stored.check(key)?;
        if !sink.begin(&stored.metadata) {
            return Ok(Some(false));
        }
        match stored.chunks {
            None => sink.bytes(0, stored.value),
            Some(owner) => read_chunks(&view, key, &stored.metadata, owner, sink)?,
        }
        Ok(Some(true))
    }

    fn list(
        &mut self,
        prefix: &[u8],
        after: &[u8],
        (max_keys, max_bytes): (usize, usize),
        now: u64,
    ) -> Result<Listing, Error> {
        let failed = |error: rusqlite::Error| Error::of("list the keys on disk", &error);
        let select = "SELECT key, version, expires, length FROM kv WHERE key > ?1 AND key >= ?2 \
                      ORDER BY key";
        let mut statement = self.connection.prepare_cached(select).map_err(failed)?;
        let mut rows = statement.query(params![after, prefix]).map_err(failed)?;
        let (mut listed, mut used) = (Listing::new(), 0);
        while let Some(row) = rows.next().map_err(failed)? {
            let key = row.get_ref(0).and_then(|key| Ok(key.as_blob()?)).map_err(failed)?;
            let is_full = listed.len() >= max_keys || used + key.len() > max_bytes;
            if !key.starts_with(prefix) || is_full {
                break;
            }
            let number = |at| row.get::<_, i64>(at).map(|number| number as u64);
            let expires = row.get::<_, Option<i64>>(2).map_err(failed)?.map(|at| at as u64);
            if expires.is_some_and(|at| at <= now) {
                continue;
            }
            used += key.len();
            let metadata = Metadata {
                version: number(1).map_err(failed)?,
                expires,
                length: number(3).map_err(failed)?,
            };
            listed.push((key.into(), metadata));
        }
        Ok(listed)
    }
}

/// Reads and checks the chunks of a value.
pub(crate) fn read_chunks(
    view: &Connection,
    key: &[u8],
    metadata: &Metadata,
    owner: u64,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::of("read from disk", &error);
    let select = "SELECT number, sum, bytes FROM chunks WHERE owner = ? ORDER BY number";
    let mut statement = view.prepare_cached(select).map_err(failed)?;
    let mut rows = statement.query(params![owner as i64]).map_err(failed)?;
    let (mut next, mut offset) = (0_u32, 0_u64);
    while let Some(row) = rows.next().map_err(failed)? {
        let (number, sum): (u32, u32) =
            (row.get(0).map_err(|_| damaged(key))?, row.get(1).map_err(|_| damaged(key))?);
        let bytes = row.get_ref(2).and_then(|bytes| Ok(bytes.as_blob()?));
        let bytes = bytes.map_err(|_| damaged(key))?;
        let left = metadata.length - offset;
        let fits = number == next && bytes.len() as u64 == left.min(CHUNK_BYTES as u64);
        if !fits || sum != chunk_sum(owner, number, bytes) {
            return Err(damaged(key));
        }
        sink.bytes(offset, bytes);
        offset += bytes.len() as u64;
        next += 1;
    }
    match offset == metadata.length {
        true => Ok(()),
        false => Err(damaged(key)),
    }
}
