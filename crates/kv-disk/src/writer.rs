//! The writer of a data directory.

use std::collections::HashMap;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::fs::statvfs;

use crate::applier::{Applier, known_uses};
use crate::change::{Body, Change, RemovalCause, Shard};
use crate::compaction::{Compaction, MovedRecord};
use crate::contents::{Contents, Layout, Usage, changes_of, read_log};
use crate::error::{Error, ErrorKind};
use crate::index::{ExpiredValue, IndexReader, IndexWriter, OtherIndex};
use crate::log::{Log, open_segments};
use crate::long_values::{LongValueWriter, NO_FILE};
use crate::metadata::Metadata;
use crate::reader::Reader;
use crate::record::{Record, RecordKind};
use crate::row::{RemovedRow, Row};
use crate::segment::Segment;
use crate::unindexed;

/// Saves changes. A trait, so that tests can replace the disk by one that is full, slow or broken.
pub trait DiskWriter: Send {
    /// Saves changes with one sync. When it succeeds, all are durable, except chunks, which are durable with their value. When it
    /// fails, none was applied; after an error other than [`ErrorKind::Full`] they may still appear after a crash.
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error>;

    /// An error if the files in use were removed, moved or replaced, so that nothing that is saved will be found again, or if the
    /// index cannot be written to.
    fn check_files(&mut self) -> Result<(), Error>;

    /// Gives up chunks whose value will not be put.
    fn discard_chunks(&mut self, value_id: u64);

    /// Removes some values that expired before `now`, and some space that is not used; returns after which pause to
    /// call it again, if there is or will be more to remove.
    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error>;
}

/// The writer of a directory: appends to its log.
pub struct Writer {
    pub(crate) contents: Arc<Contents>,
    pub(crate) index: IndexReader,
    pub(crate) log: Log,
    /// Long values that are not yet put.
    staged: HashMap<u64, LongValueWriter>,
    pub(crate) compaction: Option<Compaction>,
    /// Records of a compaction that the next batch appends again.
    pub(crate) moved: Vec<MovedRecord>,
    /// Segments all of whose records are in `moved`, and whether they may be removed.
    pub(crate) copied: Vec<(u32, bool)>,
    /// The version up to which the removals of a shard need not be kept.
    forgotten: HashMap<Shard, u64>,
    /// The number of this run, until it is saved: the disk may be full when the run starts.
    unsaved_run: Option<u64>,
    /// The number of the last run.
    last_run: u64,
    /// Dropped before the log, which it may still read.
    applier: Option<Applier>,
}

/// A record to be written, and the file of its value, if it has one.
#[derive(Clone, Copy)]
struct Pending<'c> {
    record: Record<'c>,
    long: Option<u64>,
}

impl Writer {
    /// Opens the directory, and reads the part of the log that the index does not have. An index with tables of another version is
    /// made again.
    pub(crate) fn open(layout: Layout) -> Result<Self, Error> {
        let has_log = Segment::list(&layout.log()).is_ok_and(|segments| !segments.is_empty());
        let other = match has_log {
            true => OtherIndex::set_aside(&layout.index())
                .map_err(|error| Error::of_system("replace the index", &error))?,
            false => None,
        };
        let opened = Writer::open_this_version(layout);
        match (other, &opened) {
            (Some(other), Ok(_)) => other.remove(),
            (Some(other), Err(_)) => other.restore(),
            (None, _) => {}
        }
        opened
    }

    fn open_this_version(layout: Layout) -> Result<Self, Error> {
        let refused = |error: std::io::Error| {
            Error::of_system(&format!("open {}", layout.directory.display()), &error)
        };
        create_folder(&layout.log()).map_err(refused)?;
        create_folder(layout.long_values().folder()).map_err(refused)?;
        let writer = IndexWriter::open(&layout.index())?;
        let index = IndexReader::open(&layout.index())?;
        let segments = open_segments(&layout.log(), true)?;
        let known = index.log_end()?;
        let uses = known_uses(index.segments()?, &segments);
        let found_at_start = layout.long_values().list().map_err(refused)?;
        let long_bytes = index.long_bytes()?;
        let usage = Usage { segments: uses, indexed: known, ..Usage::default() };
        let contents = Arc::new(Contents::new(layout, segments.clone(), usage, long_bytes));
        let reader = IndexReader::open(&contents.layout.index())?;
        let applier = Applier::start(contents.clone(), writer, reader)?;
        let mut last_run = known.run;
        let log_end = read_log(&contents.layout, &index, &segments, |batch| {
            let (end, number) = (batch.end, batch.number);
            let (changes, run) = changes_of(batch);
            last_run = last_run.max(run.unwrap_or(0));
            contents.unindexed.make_space()?;
            contents.unindexed.add(changes, end, number, run);
            Ok(())
        })?;
        // A crash may have left space that was allocated behind a segment's end.
        for (_, segment) in segments.iter().rev().skip(1) {
            let length = segment.file.metadata().map_or(0, |file| file.len());
            if length > u64::from(segment.end()) {
                let _ = segment.file.set_len(u64::from(segment.end()));
            }
        }
        contents.log_was_read(found_at_start);
        let segment_bytes = segment_bytes(&contents.layout.directory);
        let (log, created) =
            Log::resume(&contents.layout.log(), &segments, log_end, segment_bytes)?;
        created.into_iter().for_each(|segment| contents.add_segment(segment));
        Ok(Writer {
            contents,
            index,
            log,
            staged: HashMap::new(),
            compaction: None,
            moved: Vec::new(),
            copied: Vec::new(),
            forgotten: HashMap::new(),
            unsaved_run: None,
            last_run,
            applier: Some(applier),
        })
    }

    /// Sets the size of new segments, so that a test needs few bytes.
    #[doc(hidden)]
    pub fn set_segment_bytes(&mut self, bytes: u32) {
        self.log.set_segment_bytes(bytes);
    }

    /// Opens a reader.
    pub fn reader(&self) -> Result<Reader, Error> {
        Reader::open(self.contents.clone())
    }

    /// Returns a number for this run that no earlier run had, at least `min`. It is durable when this returns, or, if the
    /// disk is full, together with the first change: so before anything that uses it.
    pub fn begin_run(&mut self, min: u64) -> Result<u64, Error> {
        let run = min.max(self.last_run + 1);
        (self.unsaved_run, self.last_run) = (Some(run), run);
        match self.append(&[]) {
            // A store on a full disk can still be read.
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            _ => Ok(run),
        }
    }

    /// Gives up the removals of a shard up to this version: all copies of the shard have them. It is not durable: some may be
    /// kept again after a crash, or when the index is made again.
    pub fn forget_removals(&mut self, shard: Shard, version: u64) {
        let forgotten = self.forgotten.entry(shard).or_default();
        *forgotten = version.max(*forgotten);
        let (end, batch) = (self.log.end(), self.log.batch());
        self.contents.unindexed.forget_removals(shard, version, end, batch);
    }

    /// Whether the removal of this version need not be kept.
    pub(crate) fn is_forgotten(&self, shard: Shard, version: u64) -> bool {
        self.forgotten.get(&shard).is_some_and(|forgotten| version <= *forgotten)
    }

    /// The row of a key.
    pub(crate) fn row(&self, key: &[u8]) -> Result<Option<Row>, Error> {
        self.contents.row(&self.index, key)
    }

    /// Writes chunks of long values, and completes the values that are put; returns the bytes of these.
    fn write_long_values(&mut self, changes: &[Change<'_>]) -> Result<u64, Error> {
        let failed = |error: std::io::Error| Error::of_system("write to disk", &error);
        let mut completed = 0;
        for change in changes {
            match *change {
                Change::Chunk { value_id, number, bytes } => {
                    if number == 0 && !self.staged.contains_key(&value_id) {
                        let value = self.contents.long_values.create(value_id).map_err(failed)?;
                        self.staged.insert(value_id, value);
                    }
                    let value = self.staged.get_mut(&value_id).ok_or_else(unknown_chunks)?;
                    value.write(number, bytes).map_err(failed)?;
                }
                Change::Put { length, body: Body::Chunks(value_id), .. } => {
                    let value = self.staged.get(&value_id).ok_or_else(unknown_chunks)?;
                    if value.length() != length {
                        return Err(unknown_chunks());
                    }
                    value.finish(value_id).map_err(failed)?;
                    value.sync().map_err(|error| Error::of_sync(&error))?;
                    completed += length;
                }
                _ => {}
            }
        }
        if completed > 0 {
            self.contents.long_values.sync().map_err(|error| Error::of_sync(&error))?;
        }
        Ok(completed)
    }

    /// Writes changes; they are durable when this returns.
    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let completed = self.write_long_values(changes)?;
        let value_ids: Vec<[u8; 8]> =
            changes.iter().filter_map(value_id).map(u64::to_le_bytes).collect();
        let mut value_ids = value_ids.iter();
        let mut pending = Vec::with_capacity(changes.len());
        for change in changes {
            let record = match *change {
                Change::Put { shard, key, version, expires, length, body } => {
                    let (kind, body) = match body {
                        Body::Inline(bytes) => (RecordKind::Value, bytes),
                        Body::Chunks(_) => (
                            RecordKind::LongValue,
                            value_ids.next().map_or(&[][..], |value_id| value_id),
                        ),
                    };
                    Record { kind, shard, key, version, expires, length, body }
                }
                Change::Remove { shard, key, version, cause } => {
                    Record::removal(shard, key, version, cause)
                }
                Change::Chunk { .. } => continue,
            };
            pending.push(Pending { record, long: value_id(change) });
        }
        let bytes =
            pending.iter().map(|pending| pending.record.key.len() + pending.record.body.len());
        // What a compaction moves costs no sync of its own.
        self.collect(bytes.sum::<usize>().max(MIN_MOVED_BYTES));
        let appended = self.append(&pending);
        // A batch that failed may be in the log nevertheless: then its values are needed, until the next start.
        if appended.is_ok() || self.log.has_failed() {
            for value_id in changes.iter().filter_map(value_id) {
                self.staged.remove(&value_id);
            }
        }
        appended?;
        self.contents.long_bytes.fetch_add(completed, Relaxed);
        Ok(())
    }

    /// Appends a batch to the log, with the records that are moved; it is durable when this returns.
    fn append(&mut self, pending: &[Pending<'_>]) -> Result<(), Error> {
        let mut moved = std::mem::take(&mut self.moved);
        moved
            .iter_mut()
            .for_each(|moved| moved.forget_removal(|shard, at| self.is_forgotten(shard, at)));
        let copied = std::mem::take(&mut self.copied);
        let run = self.unsaved_run.map(|run| Pending { record: run_record(run), long: None });
        let again =
            moved.iter().map(|moved| Pending { record: moved.record(), long: moved.long() });
        // Moved records first: a change of the same key is a later one.
        let mut all = run.into_iter().chain(again).chain(pending.iter().copied()).peekable();
        if all.peek().is_some() {
            let appended = self.append_all(all);
            if appended.is_err() {
                // With the next batch.
                (self.moved, self.copied) = (moved, copied);
                return appended;
            }
        }
        if !copied.is_empty() {
            let mut usage = self.contents.usage();
            for (segment, is_intact) in copied {
                usage.copied.insert(segment);
                if !is_intact {
                    usage.damaged.insert(segment);
                }
            }
            drop(usage);
            // It can be removed now, if nothing was moved.
            self.contents.unindexed.wake();
        }
        Ok(())
    }

    /// A full disk has no space for what a compaction moves: it begins again later.
    fn drop_moved(&mut self) {
        self.moved.clear();
        self.copied.clear();
        self.compaction = None;
    }

    fn append_all<'c>(
        &mut self,
        mut all: Peekable<impl Iterator<Item = Pending<'c>>>,
    ) -> Result<(), Error> {
        if let Some(created) = self.log.begin()? {
            self.contents.add_segment(created);
            self.begin_compaction();
        }
        let mut changes = Vec::with_capacity(all.size_hint().0);
        while let Some(Pending { record, long }) = all.next() {
            let (position, bytes) = self.log.add(&record, all.peek().is_none());
            let Record { shard, version, expires, length, .. } = record;
            if record.kind == RecordKind::Run {
                continue;
            }
            let change = match record.kind.removal() {
                None => {
                    let metadata = Metadata { version, expires, length };
                    unindexed::LastChange::Value(Row { shard, metadata, at: position, bytes, long })
                }
                Some(cause) => unindexed::LastChange::Removed(RemovedRow {
                    shard,
                    version,
                    cause,
                    at: position,
                }),
            };
            changes.push((Box::from(record.key), change));
        }
        let has_reserve = self.contents.reserve().is_held();
        self.log.commit(has_reserve)?;
        // Before anybody sees the changes.
        self.log.check_file()?;
        let run = self.unsaved_run.take();
        self.contents.unindexed.add(changes, self.log.end(), self.log.batch(), run);
        Ok(())
    }

    /// Appends the records that are moved, if nothing else is written.
    pub(crate) fn append_moved(&mut self) -> Result<(), Error> {
        self.contents.unindexed.make_space()?;
        match self.append(&[]) {
            Err(full) if full.kind() == ErrorKind::Full && self.contents.reserve().release() => {
                self.append(&[])
            }
            appended => appended,
        }
    }

    /// Appends records which say that values expired.
    fn append_expiries(&mut self, records: &[Record<'_>]) -> Result<(), Error> {
        let pending: Vec<Pending<'_>> =
            records.iter().map(|record| Pending { record: *record, long: None }).collect();
        self.with_reserve(false, |this| this.append(&pending))
    }

    /// Saves a key whose value is known to be damaged: reads of it say so.
    pub(crate) fn save_damaged(
        &mut self,
        key: &[u8],
        version: u64,
        expires: Option<u64>,
        length: u64,
    ) -> Result<(), Error> {
        let (kind, value_id) = (RecordKind::LongValue, NO_FILE.to_le_bytes());
        let record = Record { kind, shard: None, key, version, expires, length, body: &value_id };
        self.append(&[Pending { record, long: Some(NO_FILE) }])
    }

    /// Whether values may be written: the rest of the disk is for deletions.
    fn has_space(&self) -> bool {
        self.contents.reserve().is_sufficient()
    }

    /// Frees space by what is not used; returns whether there may be more to free. The index says what is not used.
    fn free_space(&mut self) -> bool {
        self.contents.unindexed.flush()
            && matches!(self.compact(true), Ok(true))
            && self.contents.unindexed.flush()
    }

    /// Frees space until values may be written; returns whether they may.
    fn make_space(&mut self) -> bool {
        for _ in 0..MAX_REMOVALS {
            if self.has_space() {
                return true;
            }
            if !self.free_space() {
                break;
            }
        }
        self.contents.unindexed.flush();
        self.has_space()
    }

    /// Does this work; if the disk is full, once more with the space of the reserve. Work that stores values must leave
    /// enough for another reserve, so it waits for space that can be freed.
    fn with_reserve(
        &mut self,
        stores: bool,
        mut work: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut done = work(self);
        for _ in 0..MAX_REMOVALS {
            let is_full = matches!(&done, Err(error) if error.kind() == ErrorKind::Full);
            if !is_full || !self.contents.reserve().release() {
                return done;
            }
            self.drop_moved();
            if !stores {
                return work(self);
            }
            let has_more = self.free_space();
            if !self.has_space() && !self.make_space() {
                return done;
            }
            done = work(self);
            if !has_more {
                return done;
            }
        }
        done
    }

    /// Removes some expired values; returns after which pause there may be more.
    fn expire(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        let expired = self.index.expired(now, MAX_EXPIRED)?;
        let is_current = |expired: &&ExpiredValue| {
            // Not if it was written since.
            matches!(self.row(&expired.key), Ok(Some(row)) if row.metadata.version == expired.version)
        };
        let records: Vec<_> = expired
            .iter()
            .filter(is_current)
            .map(|ExpiredValue { shard, key, version }| {
                Record::removal(*shard, key, *version, RemovalCause::Expiry)
            })
            .collect();
        let pause = match records.is_empty() {
            // The index does not know yet that they are gone.
            true => INDEX_PAUSE,
            false => Duration::ZERO,
        };
        if !records.is_empty() {
            self.append_expiries(&records)?;
        }
        Ok((expired.len() == MAX_EXPIRED as usize).then_some(pause))
    }
}

impl DiskWriter for Writer {
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let stores = changes.iter().any(|change| !matches!(change, Change::Remove { .. }));
        if stores && !self.make_space() {
            let text = "write to disk: the remaining space is reserved for deletions — free space on the disk, or \
                        delete values";
            return Err(Error::new(ErrorKind::Full, text));
        }
        self.contents.unindexed.make_space()?;
        self.with_reserve(stores, |this| this.write(changes))
    }

    fn check_files(&mut self) -> Result<(), Error> {
        self.log.check_file()?;
        // A full disk is told by the writes that it refuses.
        let failure = self.contents.unindexed.failure();
        failure.filter(|error| error.kind() != ErrorKind::Full).map_or(Ok(()), Err)
    }

    fn discard_chunks(&mut self, value_id: u64) {
        if self.staged.remove(&value_id).is_some() {
            // If it stays, the next start removes it.
            let _ = self.contents.long_values.remove(value_id);
        }
    }

    fn clean_up(&mut self, now: u64) -> Result<Option<Duration>, Error> {
        let expires_in = self.expire(now)?;
        let compacts_in = self.compact(false)?.then_some(COMPACTION_PAUSE);
        // What was removed may be enough for the reserve.
        self.has_space();
        if let Some(pause) = [expires_in, compacts_in].into_iter().flatten().min() {
            return Ok(Some(pause));
        }
        let waits = self.contents.usage().indexed.end != Some(self.log.end());
        Ok((waits || self.index.has_expiring()?).then_some(CLEANUP_PAUSE))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for value_id in self.staged.keys() {
            let _ = self.contents.long_values.remove(*value_id);
        }
        // The index has all of the log when this returns.
        drop(self.applier.take());
    }
}

fn value_id(change: &Change<'_>) -> Option<u64> {
    match change {
        Change::Put { body: Body::Chunks(value_id), .. } => Some(*value_id),
        _ => None,
    }
}

fn run_record(run: u64) -> Record<'static> {
    let (kind, version) = (RecordKind::Run, run);
    Record { kind, shard: None, key: &[], version, expires: None, length: 0, body: &[] }
}

#[cold]
fn unknown_chunks() -> Error {
    Error::new(ErrorKind::Failed, "write to disk: chunks are missing — put the value again")
}

fn create_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

/// The size of segments: small ones on a small disk, where space must be free again soon; large ones on a large disk, since each is an
/// open file.
fn segment_bytes(directory: &Path) -> u32 {
    let total = statvfs(directory).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    (total / 512).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES) as u32
}

/// What a small batch takes with it of a compaction.
const MIN_MOVED_BYTES: usize = 16 << 10;
const MIN_SEGMENT_BYTES: u64 = 1 << 20;
const MAX_SEGMENT_BYTES: u64 = 1 << 30;
/// The steps of compaction before a write is refused.
const MAX_REMOVALS: usize = 64;
const MAX_EXPIRED: u32 = 10_000;
/// About how long the index takes to know of changes.
const INDEX_PAUSE: Duration = Duration::from_millis(300);
/// Between the steps of a compaction while nothing is written: writes take it with them.
const COMPACTION_PAUSE: Duration = Duration::from_millis(5);
/// How long an expired value may stay on the disk, where no reader sees it.
const CLEANUP_PAUSE: Duration = Duration::from_secs(10);
