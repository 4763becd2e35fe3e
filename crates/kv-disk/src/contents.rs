//! The contents of a data directory, as the threads of a process share them: the log's segments, the changes that the index
//! does not have yet, and the long values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::disk_reserve::DiskReserve;
use crate::error::Error;
use crate::index::{IndexReader, LogEnd, SegmentUse};
use crate::log::{self, ScannedBatch, Segments};
use crate::long_values::{LongValue, LongValues};
use crate::metadata::damaged;
use crate::position::Position;
use crate::reader::Sink;
use crate::record::RecordKind;
use crate::row::{RemovedRow, Row};
use crate::segment::{ReadRecord, Segment};
use crate::unindexed::{KeyChange, LastChange, UnindexedChanges};

/// Where things are in a data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
}

impl Layout {
    pub(crate) fn new(directory: &Path) -> Self {
        Layout { directory: directory.to_owned() }
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.directory.join("wirelane.db")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    pub(crate) fn long_values(&self) -> LongValues {
        LongValues::new(self.directory.join("long"))
    }

    /// Locked by other processes while they read: files that they may need are not removed meanwhile.
    pub(crate) fn readers_lock(&self) -> PathBuf {
        self.directory.join("readers.lock")
    }

    /// Fails if a part of the index is in a file of its own: then it must not be moved.
    pub(crate) fn require_complete_index(&self) -> Result<(), Error> {
        let log = format!("{}-wal", self.index().display());
        match std::fs::metadata(&log).map_or(0, |file| file.len()) {
            0 => Ok(()),
            _ => {
                let text = format!(
                    "write {log}: the index could not be completed — free space on the disk"
                );
                Err(Error::new(crate::ErrorKind::Full, text))
            }
        }
    }

    /// Whether there is a store.
    pub(crate) fn has_store(&self) -> bool {
        self.index().exists() || Segment::list(&self.log()).is_ok_and(|list| !list.is_empty())
    }
}

#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) layout: Layout,
    pub(crate) long_values: LongValues,
    segments: RwLock<Segments>,
    pub(crate) unindexed: UnindexedChanges,
    usage: Mutex<Usage>,
    pub(crate) reserve: Mutex<DiskReserve>,
    /// The bytes of the files of long values.
    pub(crate) long_bytes: AtomicU64,
    /// The long values whose files were there at the start, until they were taken; `None` while the log is still read.
    found_at_start: Mutex<Option<Vec<u64>>>,
}

/// How much of the log is in use.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// By segment, as the index knows it.
    pub(crate) segments: BTreeMap<u32, SegmentUse>,
    /// What the index has.
    pub(crate) indexed: LogEnd,
    /// Segments whose records were all copied, as far as they are needed.
    pub(crate) copied: BTreeSet<u32>,
    /// Of these, those with damage: they are not removed.
    pub(crate) damaged: BTreeSet<u32>,
}

impl Contents {
    pub(crate) fn new(layout: Layout, segments: Segments, usage: Usage, long_bytes: u64) -> Self {
        let reserve = DiskReserve::open(&layout.directory);
        Contents {
            long_values: layout.long_values(),
            layout,
            segments: RwLock::new(segments),
            unindexed: UnindexedChanges::default(),
            usage: Mutex::new(usage),
            reserve: Mutex::new(reserve),
            long_bytes: AtomicU64::new(long_bytes),
            found_at_start: Mutex::new(None),
        }
    }

    /// All of the log was read: what nothing refers to may be removed. `found` are the long values that were there before.
    pub(crate) fn log_was_read(&self, found: Vec<u64>) {
        *self.found_at_start.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        self.unindexed.wake();
    }

    /// The long values that were there before, once; `None` if the log is still read.
    pub(crate) fn take_found_at_start(&self) -> Option<Vec<u64>> {
        let mut found = self.found_at_start.lock().unwrap_or_else(PoisonError::into_inner);
        found.as_mut().map(std::mem::take)
    }

    pub(crate) fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reserve(&self) -> MutexGuard<'_, DiskReserve> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segment(&self, number: u32) -> Option<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub(crate) fn segments(&self) -> Segments {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_segment(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.insert(segment.number, segment);
    }

    pub(crate) fn remove_segment(&self, number: u32) {
        self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// The number of the first segment.
    pub(crate) fn oldest_segment(&self) -> Option<u32> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.first_key_value().map(|(number, _)| *number)
    }

    /// The bytes of the log.
    pub(crate) fn log_bytes(&self) -> u64 {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.values().map(|segment| u64::from(segment.end())).sum()
    }

    /// The row of a key.
    pub(crate) fn row(&self, index: &IndexReader, key: &[u8]) -> Result<Option<Row>, Error> {
        // The index has a change before it is no longer unindexed: so this order misses none.
        match self.unindexed.get(key) {
            Some(LastChange::Value(row)) => Ok(Some(row)),
            Some(LastChange::Removed(_)) => Ok(None),
            None => index.get(key),
        }
    }

    /// Removes a long value that nothing refers to.
    pub(crate) fn remove_long(&self, number: u64) -> std::io::Result<()> {
        let bytes = self.long_values.remove(number)?;
        let _ =
            self.long_bytes.fetch_update(Relaxed, Relaxed, |all| Some(all.saturating_sub(bytes)));
        Ok(())
    }
}

/// Opens the log and the use of its segments, and reads what the index does not have; `take` receives it.
pub(crate) fn read_log(
    layout: &Layout,
    index: &IndexReader,
    segments: &Segments,
    take: impl FnMut(ScannedBatch) -> Result<(), Error>,
) -> Result<LogEnd, Error> {
    log::scan(&layout.log(), segments, index.log_end()?, take)
}

/// The changes of a batch, for the index, and the run that began with it.
pub(crate) fn changes_of(batch: ScannedBatch) -> (Vec<KeyChange>, Option<u64>) {
    let mut run = None;
    let changes = batch.records.into_iter().filter_map(|record| {
        let header = record.header;
        if header.kind == RecordKind::Run {
            run = run.max(Some(header.version));
            return None;
        }
        let change = match header.kind.removal() {
            None => LastChange::Value(Row {
                shard: header.shard,
                metadata: crate::Metadata {
                    version: header.version,
                    expires: header.expires,
                    length: header.length,
                },
                at: record.at,
                bytes: header.record_bytes() as u32,
                long: record.long,
            }),
            Some(cause) => {
                let (shard, version) = (header.shard, header.version);
                LastChange::Removed(RemovedRow { shard, version, cause, at: record.at })
            }
        };
        Some((record.key, change))
    });
    (changes.collect(), run)
}

/// Where the bytes of a value are, open.
pub(crate) enum OpenValue {
    Record(Arc<Segment>),
    Long(LongValue),
}

/// Opens the bytes of a value. `None`: they were moved in the meantime.
pub(crate) fn open_value(
    row: &Row,
    segment: impl FnOnce(u32) -> Option<Arc<Segment>>,
    long_values: &LongValues,
) -> Result<Option<OpenValue>, Error> {
    match row.long {
        None => Ok(segment(row.at.segment).map(OpenValue::Record)),
        Some(number) => {
            let opened =
                long_values.open(number).map_err(|error| Error::of_system(READ, &error))?;
            Ok(opened.map(OpenValue::Long))
        }
    }
}

impl OpenValue {
    /// Reads the value of this row.
    pub(crate) fn read(
        &self,
        key: &[u8],
        row: &Row,
        buffer: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let failed = |error| Error::of_system(READ, &error);
        match self {
            OpenValue::Long(file) => {
                let read =
                    file.read(row.metadata.length, |offset, bytes| sink.bytes(offset, bytes));
                if read.map_err(failed)? { Ok(()) } else { Err(damaged(key)) }
            }
            OpenValue::Record(segment) => {
                let read =
                    segment.read(row.at.offset, row.bytes as usize, buffer).map_err(failed)?;
                take_record(read, key, row, sink)
            }
        }
    }

    /// The same, if it need not wait for the disk; returns whether it was read.
    pub(crate) fn read_cached(
        &self,
        key: &[u8],
        row: &Row,
        buffer: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> Result<bool, Error> {
        let OpenValue::Record(segment) = self else { return Ok(false) };
        match segment.read_cached(row.at.offset, row.bytes as usize, buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(Error::of_system(READ, &error)),
            // It is not wanted.
            Ok(_) if !sink.begin(&row.metadata) => Ok(true),
            Ok(read) => take_record(read, key, row, sink).map(|()| true),
        }
    }
}

/// Gives the value of a record to the sink, if it is the one of this row.
fn take_record(
    read: Option<ReadRecord<'_>>,
    key: &[u8],
    row: &Row,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let matching = read.filter(|record| {
        record.header.kind == RecordKind::Value
            && record.key == key
            && record.header.version == row.metadata.version
            && record.body.len() as u64 == row.metadata.length
            && record.header.has_body(record.body)
    });
    sink.bytes(0, matching.ok_or_else(|| damaged(key))?.body);
    Ok(())
}

/// Opens the file by which processes that read keep files from being removed.
pub(crate) fn open_readers_lock(layout: &Layout) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(layout.readers_lock())
}

/// A position before all records of a segment.
pub(crate) fn start_of(segment: u32) -> Position {
    Position { segment, offset: crate::segment::START }
}

const READ: &str = "read from disk";
