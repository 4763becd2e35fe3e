//! Readers: any number, concurrent with the writer. Each read sees what was durable when it started.

use std::collections::HashSet;
use std::sync::Arc;

use crate::change::{KeyStates, Shard};
use crate::contents::{Contents, open_value};
use crate::error::Error;
use crate::index::IndexReader;
use crate::metadata::{Metadata, damaged};
use crate::row::Row;
use crate::unindexed::{Changes, LastChange};

/// Reads values and keys.
pub struct Reader {
    contents: Arc<Contents>,
    index: IndexReader,
    /// A record that is read.
    buffer: Vec<u8>,
    /// The read transaction of the index that is open for the next cached read: how often changes had been applied when it
    /// began.
    kept_since: Option<u64>,
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

    /// The same, if the bytes of the value need not be waited for.
    fn read_cached(&mut self, _key: &[u8], _sink: &mut dyn Sink) -> Result<CachedRead, Error> {
        Ok(CachedRead::Waits)
    }

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

/// The result of a read that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachedRead {
    /// No such key.
    Absent,
    /// It was read, or the sink did not want it.
    Read,
    /// It must be read from the disk.
    Waits,
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
    pub(crate) fn open(contents: Arc<Contents>) -> Result<Self, Error> {
        let index = IndexReader::open(&contents.layout.index())?;
        Ok(Reader { contents, index, buffer: Vec::new(), kept_since: None })
    }
}

impl Reader {
    /// Ends the read transaction of the index that is open for cached reads: as long as it lasts, the index's log cannot begin again.
    pub fn release(&mut self) {
        if self.kept_since.take().is_some() {
            // Then it has ended too.
            let _ = self.index.end_read();
        }
    }

    /// The row of a key, by a read transaction that is open as long as the index does not change: so it need not lock
    /// the database for each.
    fn kept_row(&mut self, key: &[u8]) -> Result<Option<Row>, Error> {
        loop {
            let (unindexed, count) = self.contents.unindexed.get_and_count(key);
            match unindexed {
                Some(LastChange::Value(row)) => return Ok(Some(row)),
                Some(LastChange::Removed(_)) => return Ok(None),
                // A change that this transaction does not have is unindexed, as long as the count is the same.
                None if self.kept_since == Some(count) => return self.index.get(key),
                None => {
                    self.release();
                    self.index.begin_read()?;
                    self.kept_since = Some(count);
                }
            }
        }
    }
}

impl Reader {
    /// The changes of a shard after a version, in the order of their versions; at most `max`. The next page begins after the
    /// last one; an empty page is the end. A key that changed several times is there once, with its last change; values that expired
    /// are not there. After version 0, it is all that the shard has.
    pub fn changes_since(
        &mut self,
        shard: Shard,
        version: u64,
        max: usize,
    ) -> Result<KeyStates, Error> {
        self.release();
        let mut after = version;
        loop {
            // Before the index, which has a change before it is no longer unindexed.
            let unindexed = self.contents.unindexed.of_shard(shard);
            let mut page = self.index.changes_since(shard, after, max)?;
            let last = page.last().map(|(_, state)| state.version()).filter(|_| page.len() >= max);
            page.retain(|(key, state)| {
                unindexed.get(key).is_none_or(|newer| newer.version() < state.version())
            });
            let in_page: HashSet<&[u8]> = page.iter().map(|(key, _)| &key[..]).collect();
            let is_next = |change: &LastChange| {
                change.version() > version && last.is_none_or(|last| change.version() <= last)
            };
            let missing: Vec<_> = unindexed
                .iter()
                .filter(|(key, change)| is_next(change) && !in_page.contains(&key[..]))
                .filter(|(_, change)| !change.is_expiry())
                .map(|(key, change)| (key.clone(), change.state()))
                .collect();
            page.extend(missing);
            page.sort_by_key(|(_, state)| state.version());
            page.truncate(max);
            match last {
                // All keys of this part have changed since.
                Some(last) if page.is_empty() => after = last,
                _ => return Ok(page),
            }
        }
    }
}

impl DiskReader for Reader {
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error> {
        self.release();
        for _ in 0..MAX_ATTEMPTS {
            let Some(row) = self.contents.row(&self.index, key)? else { return Ok(None) };
            let segment = |number| self.contents.segment(number);
            let Some(value) = open_value(&row, segment, &self.contents.long_values)? else {
                continue;
            };
            if !sink.begin(&row.metadata) {
                return Ok(Some(false));
            }
            value.read(key, &row, &mut self.buffer, sink)?;
            return Ok(Some(true));
        }
        Err(damaged(key))
    }

    fn read_cached(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<CachedRead, Error> {
        let Some(row) = self.kept_row(key)? else { return Ok(CachedRead::Absent) };
        if row.long.is_some() {
            return Ok(CachedRead::Waits);
        }
        let segment = |number| self.contents.segment(number);
        let value = open_value(&row, segment, &self.contents.long_values)?;
        let is_read = match value {
            Some(value) => value.read_cached(key, &row, &mut self.buffer, sink)?,
            None => false,
        };
        Ok(if is_read { CachedRead::Read } else { CachedRead::Waits })
    }

    fn stat(&mut self, key: &[u8]) -> Result<Option<Metadata>, Error> {
        self.release();
        Ok(self.contents.row(&self.index, key)?.map(|row| row.metadata))
    }

    fn list(
        &mut self,
        prefix: &[u8],
        after: &[u8],
        (max_keys, max_bytes): (usize, usize),
        now: u64,
    ) -> Result<Listing, Error> {
        self.release();
        // Before the index, which has a change before it is no longer unindexed.
        let unindexed = self.contents.unindexed.with_prefix(prefix, after);
        let (mut listed, mut used, mut damaged) = (Listing::new(), 0, None);
        merge(&self.index, unindexed, prefix, after, |key, row| {
            let metadata = match row {
                Ok(row) => row.metadata,
                Err(error) => {
                    damaged = Some(error);
                    return false;
                }
            };
            if metadata.expires.is_some_and(|at| at <= now) {
                return true;
            }
            if listed.len() >= max_keys || used + key.len() > max_bytes {
                return false;
            }
            used += key.len();
            listed.push((key.into(), metadata));
            true
        })?;
        match damaged {
            // The keys before it are listed; the next page begins with it.
            Some(error) if listed.is_empty() => Err(error),
            _ => Ok(listed),
        }
    }
}

/// Calls `take` with the rows of keys with a prefix, after a key, in order, while it returns `true`: of the index, and of the
/// changes that it does not have yet, which were read before.
pub(crate) fn merge(
    index: &IndexReader,
    unindexed: Changes,
    prefix: &[u8],
    after: &[u8],
    mut take: impl FnMut(&[u8], Result<Row, Error>) -> bool,
) -> Result<(), Error> {
    let mut unindexed = unindexed.into_iter().peekable();
    let mut goes_on = true;
    index.scan(prefix, after, |key, row| {
        while let Some((before, change)) = unindexed.next_if(|(unindexed, _)| **unindexed < *key) {
            goes_on = take_change(&before, change, &mut take);
            if !goes_on {
                return false;
            }
        }
        let newer =
            unindexed.next_if(|(unindexed, _)| **unindexed == *key).map(|(_, change)| change);
        goes_on = match (newer, row) {
            // The index has a newer one by now.
            (Some(change), Ok(row)) if row.metadata.version > change.version() => {
                take(key, Ok(row))
            }
            (Some(change), _) => take_change(key, change, &mut take),
            (None, row) => take(key, row),
        };
        goes_on
    })?;
    for (key, change) in unindexed {
        if !goes_on {
            break;
        }
        goes_on = take_change(&key, change, &mut take);
    }
    Ok(())
}

fn take_change(
    key: &[u8],
    change: LastChange,
    take: &mut impl FnMut(&[u8], Result<Row, Error>) -> bool,
) -> bool {
    match change {
        LastChange::Value(row) => take(key, Ok(row)),
        LastChange::Removed(_) => true,
    }
}

/// How often a value is looked up whose bytes are moved again and again.
const MAX_ATTEMPTS: usize = 100;
