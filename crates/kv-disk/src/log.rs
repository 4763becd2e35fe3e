//! The log: what makes a write durable. Batches of records are appended to the last segment, and synced before they are
//! acknowledged.
//!
//! A batch is complete if its last record is there. After a crash, an incomplete one at the end of the log was never
//! acknowledged, and is dropped. Every batch is synced before the next is written: so if a later batch follows a record
//! that is not intact, the log is damaged, and is refused (`scan`). Damage in the last batch looks the same as a crash.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{Error, ErrorKind};
use crate::index::LogEnd;
use crate::long_values::NO_FILE;
use crate::position::Position;
use crate::record::{ALIGNMENT, HEADER_BYTES, Header, MAGIC, Record};
use crate::segment::{START, Segment, parse};

pub(crate) type Segments = BTreeMap<u32, Arc<Segment>>;

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct Log {
    directory: PathBuf,
    segment: Arc<Segment>,
    /// Where the next batch is written.
    end: u32,
    /// Up to where the file has space on the disk.
    allocated: u32,
    /// The number of the last batch.
    batch: u64,
    /// The records of the next batch.
    bytes: Vec<u8>,
    /// The size at which a new segment begins.
    segment_bytes: u32,
    /// A sync failed, or a write that cannot be undone: what the file has is unknown, and the next batch begins a new segment.
    failed: bool,
}

impl Log {
    /// Continues after what [`scan`] found.
    pub(crate) fn resume(
        directory: &Path,
        segments: &Segments,
        log_end: LogEnd,
        segment_bytes: u32,
    ) -> Result<(Self, Option<Arc<Segment>>), Error> {
        let failed = |error: io::Error| Error::of_system("open the log", &error);
        let last = segments.last_key_value().map(|(_, segment)| segment.clone());
        let (segment, created) = match last {
            Some(segment) => (segment, None),
            None => {
                let created = Arc::new(Segment::create(directory, 1, START).map_err(failed)?);
                (created.clone(), Some(created))
            }
        };
        let end = match log_end.end {
            Some(end) if end.segment == segment.number => end.offset,
            _ => START,
        };
        // Removes an incomplete batch, and space that was allocated.
        segment.file.set_len(u64::from(end)).map_err(failed)?;
        segment.set_end(end);
        let log = Log {
            directory: directory.to_owned(),
            segment,
            end,
            allocated: end,
            batch: log_end.batch,
            bytes: Vec::new(),
            segment_bytes,
            failed: false,
        };
        Ok((log, created))
    }

    pub(crate) fn set_segment_bytes(&mut self, bytes: u32) {
        self.segment_bytes = bytes;
    }

    /// Where the next batch is written.
    pub(crate) fn end(&self) -> Position {
        Position { segment: self.segment.number, offset: self.end }
    }

    /// The size at which a new segment begins.
    pub(crate) fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// The number of the last batch.
    pub(crate) fn batch(&self) -> u64 {
        self.batch
    }

    /// The segment that is written to.
    pub(crate) fn segment(&self) -> u32 {
        self.segment.number
    }

    /// Begins a batch; returns the new segment, if it begins one.
    pub(crate) fn begin(&mut self) -> Result<Option<Arc<Segment>>, Error> {
        self.bytes.clear();
        if !self.failed && self.end < self.segment_bytes {
            return Ok(None);
        }
        let number = self.segment.number + 1;
        let created = Segment::create(&self.directory, number, self.end);
        let created = Arc::new(created.map_err(|error| Error::of_system(WRITE, &error))?);
        // Space that was allocated and not used.
        let _ = self.segment.file.set_len(u64::from(self.end));
        self.segment = created.clone();
        (self.end, self.allocated, self.failed) = (START, START, false);
        Ok(Some(created))
    }

    /// Adds a record to the batch; returns its position and length.
    pub(crate) fn add(&mut self, record: &Record<'_>, is_last: bool) -> (Position, u32) {
        let before = self.bytes.len();
        let at = Position { offset: self.end + before as u32, ..self.end() };
        record.encode(&mut self.bytes, at, self.batch + 1, is_last);
        (at, (self.bytes.len() - before) as u32)
    }

    /// Whether the last batch may be in the log although it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes the batch; it is durable when this returns. `ahead`: whether there is space for more than the batch.
    pub(crate) fn commit(&mut self, ahead: bool) -> Result<(), Error> {
        let failed = |error: &io::Error| Error::of_system(WRITE, error);
        let end = self.end + self.bytes.len() as u32;
        if ahead && end > self.allocated {
            // A file that grows with each batch takes the file system longer to sync.
            let ahead = (end + ALLOCATED_AHEAD).min(self.segment_bytes.max(end));
            let bytes = u64::from(ahead - self.end);
            let from = u64::from(self.end);
            match fallocate(&self.segment.file, FallocateFlags::empty(), from, bytes) {
                Ok(()) => self.allocated = ahead,
                // The write itself says what is wrong. A part may have been allocated.
                Err(_) => {
                    let _ = self.segment.file.set_len(from);
                    self.allocated = self.end;
                }
            }
        }
        if let Err(error) = self.segment.file.write_all_at(&self.bytes, u64::from(self.end)) {
            // A part may have been written: it must not be there after the next batch.
            self.failed = self.segment.file.set_len(u64::from(self.end)).is_err();
            self.allocated = self.end;
            return Err(failed(&error));
        }
        if let Err(error) = self.segment.file.sync_data() {
            self.failed = true;
            // It was not acknowledged.
            let _ = self.segment.file.set_len(u64::from(self.end));
            return Err(Error::of_sync(&error));
        }
        self.end = end;
        self.batch += 1;
        self.segment.set_end(end);
        Ok(())
    }

    /// An error if the file in use was removed, moved or replaced: then nothing that is written will be found again.
    pub(crate) fn check_file(&self) -> Result<(), Error> {
        let id = |file: &fs::Metadata| (file.dev(), file.ino());
        let path = &self.segment.path;
        let cause = match (fs::metadata(path), self.segment.file.metadata()) {
            (Ok(named), Ok(open)) if id(&named) == id(&open) => return Ok(()),
            (Ok(_), Ok(_)) => "another file has its name".to_owned(),
            (Err(error), _) | (_, Err(error)) => error.to_string(),
        };
        let text = format!(
            "write to {}: the file in use was removed, moved or replaced ({cause}) — move it back; if it was removed, \
             copy the values that are needed with `wirelane kv get` before you restart the server",
            path.display()
        );
        Err(Error::new(ErrorKind::Failed, text))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.segment.file.set_len(u64::from(self.end));
    }
}

/// A record of a batch that is complete.
#[derive(Debug)]
pub(crate) struct ScannedRecord {
    pub(crate) header: Header,
    pub(crate) key: Box<[u8]>,
    pub(crate) at: Position,
    /// The number of its file, if it is a long value.
    pub(crate) long: Option<u64>,
}

/// A batch that is complete.
pub(crate) struct ScannedBatch {
    pub(crate) records: Vec<ScannedRecord>,
    pub(crate) number: u64,
    /// Where the next one begins.
    pub(crate) end: Position,
    /// Whether the body of one of its records is damaged.
    has_damage: bool,
}

/// Opens the segments of a directory.
pub(crate) fn open_segments(directory: &Path, write: bool) -> Result<Segments, Error> {
    let call = || format!("open {}", directory.display());
    let failed = |error: io::Error| Error::of_system(&call(), &error);
    let numbers = match Segment::list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Segments::new()),
        numbers => numbers.map_err(failed)?,
    };
    let mut segments = Segments::new();
    for number in numbers {
        // Without records, a segment was being created when the process died: its header is synced before anything else.
        if let Some(segment) = Segment::open(directory, number, write).map_err(failed)? {
            segments.insert(number, Arc::new(segment));
        }
    }
    // Where the next segment says so.
    for (number, next) in segments.iter().skip(1) {
        let before = number.checked_sub(1).and_then(|before| segments.get(&before));
        if let (Some(segment), Some(end)) = (before, next.previous_end) {
            segment.set_end(end);
        }
    }
    Ok(segments)
}

/// Reads the batches that the index does not have; `take` receives each. Returns where the last one ends.
pub(crate) fn scan(
    directory: &Path,
    segments: &Segments,
    known: LogEnd,
    mut take: impl FnMut(ScannedBatch) -> Result<(), Error>,
) -> Result<LogEnd, Error> {
    let first = known.end.map_or(0, |end| end.segment);
    let mut log_end = known;
    // The last complete batch: whether its damage was there when it was acknowledged shows in the next one.
    let mut last: Option<ScannedBatch> = None;
    let mut expected = known.end.map(|end| end.segment);
    let count = segments.len();
    for (at, (number, segment)) in segments.iter().enumerate() {
        if *number < first {
            continue;
        }
        if expected.is_some_and(|expected| expected != *number) {
            return Err(damaged(directory, "a segment is missing"));
        }
        expected = known.end.map(|_| number + 1);
        let is_last = at + 1 == count;
        let from = known.end.filter(|end| end.segment == *number).map_or(START, |end| end.offset);
        let mut reader = SegmentReader::new(segment.clone(), from);
        if known.end.is_some_and(|end| end.segment == *number) {
            reader.last_batch = Some(known.batch);
        }
        loop {
            match reader.next_batch()? {
                Some(batch) => {
                    if let Some(before) = last.replace(batch) {
                        log_end = LogEnd { end: Some(before.end), batch: before.number, ..log_end };
                        take(before)?;
                    }
                }
                None if reader.at >= segment.end() && !is_last => break,
                None if !is_last && reader.is_unused()? => break,
                None => {
                    let before = last.as_ref().map_or(log_end.batch, |last| last.number);
                    if !is_last || reader.finds_batch_after(before + 1)? {
                        // What is before it is there, for a backup.
                        last.map_or(Ok(()), take)?;
                        return Err(bad_record(segment, reader.at));
                    }
                    break;
                }
            }
        }
    }
    if expected.is_some_and(|expected| expected == first) && first > 0 {
        return Err(damaged(directory, "a segment is missing"));
    }
    if let Some(last) = last.filter(|last| !last.has_damage) {
        log_end = LogEnd { end: Some(last.end), batch: last.number, ..log_end };
        take(last)?;
    }
    Ok(log_end)
}

fn bad_record(segment: &Segment, at: u32) -> Error {
    damaged(&segment.path, &format!("damaged at byte {at}, before its end"))
}

fn damaged(path: &Path, cause: &str) -> Error {
    let fix = "the log was not changed. Save what is still readable with `wirelane kv backup DIR FILE` and restore it \
               into a new directory with `wirelane kv restore FILE DIR`, or restore an older backup";
    let text = format!("open {}: {cause}; acknowledged writes are lost — {fix}", path.display());
    Error::new(ErrorKind::Damaged, text)
}

/// Reads a segment from front to back.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    pub(crate) segment: Arc<Segment>,
    /// Where the next record begins.
    pub(crate) at: u32,
    /// A part of the file, and where it begins.
    bytes: Vec<u8>,
    from: u32,
    /// The number of the batch before: within a segment the next one has the next number.
    last_batch: Option<u64>,
}

impl SegmentReader {
    pub(crate) fn new(segment: Arc<Segment>, at: u32) -> Self {
        SegmentReader { segment, at, bytes: Vec::new(), from: at, last_batch: None }
    }

    /// The bytes at an offset: this many, or fewer at the end of the segment.
    fn fill(&mut self, at: u32, count: usize) -> Result<&[u8], Error> {
        let end = self.segment.end();
        let have = self.from as usize + self.bytes.len();
        let wanted = (at as usize + count).min(end as usize);
        if at < self.from || wanted > have {
            let bytes = (end.saturating_sub(at) as usize).min(count.max(READ_BYTES));
            self.bytes.resize(bytes, 0);
            self.from = at;
            match self.segment.file.read_exact_at(&mut self.bytes, u64::from(at)) {
                Ok(()) => {}
                // The file is shorter than it was.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.bytes.clear(),
                Err(error) => {
                    let call = format!("read {}", self.segment.path.display());
                    return Err(Error::of_system(&call, &error));
                }
            }
        }
        let start = ((at - self.from) as usize).min(self.bytes.len());
        Ok(&self.bytes[start..(start + count).min(self.bytes.len())])
    }

    /// The next batch. `None`: there is no complete one, and nothing was read.
    pub(crate) fn next_batch(&mut self) -> Result<Option<ScannedBatch>, Error> {
        let (start, mut at) = (self.at, self.at);
        let (mut records, mut has_damage) = (Vec::new(), false);
        let following = self.last_batch.map(|last| last + 1);
        loop {
            let position = Position { segment: self.segment.number, offset: at };
            let header = {
                let bytes = self.fill(at, HEADER_BYTES)?;
                bytes.first_chunk().and_then(Header::parse)
            };
            let Some(header) = header else { break };
            let length = header.record_bytes();
            let bytes = self.fill(at, length)?;
            let Some(record) = parse(bytes, position) else { break };
            let first = records.first().map(|first: &ScannedRecord| first.header.batch);
            let expected = first.or(following);
            if expected.is_some_and(|expected| expected != header.batch) {
                break;
            }
            let is_intact = header.has_body(record.body);
            has_damage |= !is_intact;
            let long = match header.kind {
                // A number that is not intact would be that of another value.
                crate::record::RecordKind::LongValue if !is_intact => Some(NO_FILE),
                crate::record::RecordKind::LongValue => {
                    record.body.first_chunk().map(|number| u64::from_le_bytes(*number))
                }
                _ => None,
            };
            records.push(ScannedRecord { header, key: record.key.into(), at: position, long });
            at += length as u32;
            if header.ends_batch {
                (self.at, self.last_batch) = (at, Some(header.batch));
                let end = Position { segment: self.segment.number, offset: at };
                return Ok(Some(ScannedBatch { records, number: header.batch, end, has_damage }));
            }
        }
        self.at = start;
        Ok(None)
    }

    /// Whether there are only zeros here: space that was allocated and not used.
    fn is_unused(&mut self) -> Result<bool, Error> {
        Ok(self.fill(self.at, HEADER_BYTES)?.iter().all(|byte| *byte == 0))
    }

    /// Whether an intact record of a batch after `torn` follows.
    fn finds_batch_after(&mut self, torn: u64) -> Result<bool, Error> {
        let mut at = self.at;
        while u64::from(at) + HEADER_BYTES as u64 <= u64::from(self.segment.end()) {
            let bytes = self.fill(at, HEADER_BYTES)?;
            let is_candidate = bytes.starts_with(&MAGIC.to_le_bytes());
            let header = bytes.first_chunk().and_then(Header::parse).filter(|_| is_candidate);
            if let Some(header) = header {
                let position = Position { segment: self.segment.number, offset: at };
                let bytes = self.fill(at, header.record_bytes())?;
                if header.batch > torn && parse(bytes, position).is_some() {
                    return Ok(true);
                }
            }
            let Some(next) = at.checked_add(ALIGNMENT as u32) else { break };
            at = next;
        }
        Ok(false)
    }
}

const WRITE: &str = "write to disk";
/// How much space is allocated at once.
const ALLOCATED_AHEAD: u32 = 16 << 20;
const READ_BYTES: usize = 1 << 20;
