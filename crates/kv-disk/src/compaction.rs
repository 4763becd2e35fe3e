//! Frees the space of values that were replaced or deleted: what is still needed of a segment is appended to the log again,
//! so that the segment can be removed.
//!
//! While there are writes, each batch takes some records with it, about as many bytes as it has itself: so they cost no sync of
//! their own, and the log does not grow faster than space is freed.

use std::sync::Arc;

use crate::change::Shard;
use crate::contents::start_of;
use crate::error::Error;
use crate::log::{ScannedRecord, SegmentReader};
use crate::record::{Record, RecordKind};
use crate::row::RemovedRow;
use crate::segment::{START, Segment};
use crate::unindexed::LastChange;
use crate::writer::Writer;

/// A segment that is being copied.
#[derive(Debug)]
pub(crate) struct Compaction {
    reader: SegmentReader,
    /// Whether all records so far were intact, or are not needed.
    is_intact: bool,
}

/// Whether a record is needed when its segment is removed.
#[derive(Debug, Clone, Copy)]
enum Needed {
    No,
    Yes,
    /// So that an older value of its key does not return; not for replicas of its shard.
    WithoutShard,
}

/// A record that is appended again with the next batch.
#[derive(Debug)]
pub(crate) struct MovedRecord {
    record: ScannedRecord,
    body: Vec<u8>,
}

impl MovedRecord {
    pub(crate) fn record(&self) -> Record<'_> {
        let header = &self.record.header;
        Record {
            kind: header.kind,
            shard: header.shard,
            key: &self.record.key,
            version: header.version,
            expires: header.expires,
            length: header.length,
            body: &self.body,
        }
    }

    /// A removal that need not be kept is like one of a store without shards.
    pub(crate) fn forget_removal(&mut self, is_forgotten: impl Fn(Shard, u64) -> bool) {
        let header = &mut self.record.header;
        let is_forgotten = |shard: Shard| is_forgotten(shard, header.version);
        if header.kind.removal().is_some() && header.shard.is_some_and(is_forgotten) {
            header.shard = None;
        }
    }

    pub(crate) fn long(&self) -> Option<u64> {
        self.record.long
    }
}

impl Writer {
    /// Copies some records, if much of the log is not used; returns whether there is more to do. `urgent`: if any of it is not
    /// used.
    pub(crate) fn compact(&mut self, urgent: bool) -> Result<bool, Error> {
        if self.compaction.is_none() {
            self.compaction = self.choose(urgent);
        }
        if self.compaction.is_none() {
            return Ok(false);
        }
        self.collect(MAX_BYTES_AT_ONCE);
        self.append_moved()?;
        Ok(true)
    }

    /// Begins a compaction if it is time to.
    pub(crate) fn begin_compaction(&mut self) {
        if self.compaction.is_none() {
            self.compaction = self.choose(false);
        }
    }

    /// Reads records that the next batch appends again, until there are about this many bytes, or `MAX_BYTES_READ` were read.
    pub(crate) fn collect(&mut self, bytes: usize) {
        let Some(compaction) = self.compaction.take() else { return };
        let number = compaction.reader.segment.number;
        if self.collect_from(compaction, bytes).is_err() {
            // A segment that cannot be read stays; it is not chosen again. Reads of its values report it.
            self.copied.push((number, false));
        }
    }

    fn collect_from(&mut self, mut compaction: Compaction, bytes: usize) -> Result<(), Error> {
        let (mut collected, mut read) = (0, 0);
        while collected < bytes && read < MAX_BYTES_READ {
            let from = compaction.reader.at;
            let Some(batch) = compaction.reader.next_batch()? else {
                self.finish(&compaction);
                return Ok(());
            };
            read += (batch.end.offset - from) as usize;
            let is_oldest =
                self.contents.oldest_segment() == Some(compaction.reader.segment.number);
            let needed = self.are_needed(&batch.records, is_oldest)?;
            for (mut record, needed) in batch.records.into_iter().zip(needed) {
                match needed {
                    Needed::No => continue,
                    Needed::Yes => {}
                    Needed::WithoutShard => record.header.shard = None,
                }
                let length = record.header.record_bytes();
                if self.take(&mut compaction, record)? {
                    collected += length;
                }
            }
        }
        self.compaction = Some(compaction);
        Ok(())
    }

    fn choose(&self, urgent: bool) -> Option<Compaction> {
        let usage = self.contents.usage();
        let end = usage.indexed.end?;
        let segments = self.contents.segments();
        let candidates = segments.range(..end.segment.min(self.log.segment()));
        let oldest = segments.first_key_value().map(|(number, _)| *number);
        let uses =
            |segment: &Segment| usage.segments.get(&segment.number).copied().unwrap_or_default();
        // What says that a key has no value is needed as long as an older segment may have one.
        let removals = |segment: &Segment| match Some(segment.number) == oldest {
            true => 0,
            false => uses(segment).removals,
        };
        let needed_bytes = |segment: &Segment| uses(segment).live + removals(segment);
        let all = |segment: &Segment| u64::from(segment.end().saturating_sub(START));
        let candidates: Vec<&Arc<Segment>> = candidates
            .map(|(_, segment)| segment)
            .filter(|segment| !usage.copied.contains(&segment.number))
            .collect();
        let total: u64 = candidates.iter().map(|segment| all(segment)).sum();
        let needed: u64 = candidates.iter().map(|segment| needed_bytes(segment)).sum();
        let removed: u64 = candidates.iter().map(|segment| removals(segment)).sum();
        let dead = |segment: &Segment| all(segment).saturating_sub(needed_bytes(segment));
        let slack = u64::from(self.log.segment_bytes()) * 2;
        let first = candidates.first().copied().filter(|segment| Some(segment.number) == oldest);
        let chosen = candidates.into_iter().max_by_key(|segment| dead(segment))?;
        let (chosen, is_due) = match first {
            // Removals are half of what is needed: without the oldest segments they are not.
            Some(first) if removed * 2 >= needed + slack => (first, true),
            _ if urgent => (chosen, dead(chosen) > 0 && dead(chosen) * 16 >= all(chosen)),
            // Half of the log, and two segments more: then the one that is used least has little to copy.
            _ => (chosen, total >= needed * 2 + slack),
        };
        let from = start_of(chosen.number).offset;
        let reader = || SegmentReader::new(chosen.clone(), from);
        is_due.then(|| Compaction { reader: reader(), is_intact: true })
    }

    /// Which of these records are still needed.
    fn are_needed(&self, records: &[ScannedRecord], is_oldest: bool) -> Result<Vec<Needed>, Error> {
        loop {
            // One read transaction for all: it locks nothing for each of them.
            let applied = self.contents.unindexed.applied_count();
            self.index.begin_read()?;
            let needed = records.iter().map(|record| self.is_needed(record, is_oldest)).collect();
            self.index.end_read()?;
            // Else a change may have been in neither.
            if self.contents.unindexed.applied_count() == applied {
                return needed;
            }
        }
    }

    fn is_needed(&self, record: &ScannedRecord, is_oldest: bool) -> Result<Needed, Error> {
        let header = &record.header;
        if header.kind == RecordKind::Run {
            // The index has it.
            return Ok(Needed::No);
        }
        let current = self.row(&record.key)?;
        let is_needed = |needed| if needed { Needed::Yes } else { Needed::No };
        Ok(match header.kind.removal() {
            None => is_needed(current.is_some_and(|row| row.at == record.at)),
            Some(_) if current.is_some() => Needed::No,
            Some(_) => match self.kept_removal(record)? {
                // Of a key that was removed several times, only the last removal is kept: an earlier one must not follow it in the
                // log.
                Some(kept) => is_needed(kept.at == record.at),
                None if is_oldest => Needed::No,
                None => Needed::WithoutShard,
            },
        })
    }

    /// The removal of this key that is kept for replicas of its shard.
    fn kept_removal(&self, record: &ScannedRecord) -> Result<Option<RemovedRow>, Error> {
        if record.header.shard.is_none() {
            return Ok(None);
        }
        let row = match self.contents.unindexed.get(&record.key) {
            Some(LastChange::Removed(row)) => Some(row),
            Some(LastChange::Value(_)) => None,
            None => self.index.removal(&record.key)?,
        };
        Ok(row.filter(|row| {
            row.kept_in().is_some_and(|shard| !self.is_forgotten(shard, row.version))
        }))
    }

    /// Keeps a record for the next batch; returns whether it is intact.
    fn take(&mut self, compaction: &mut Compaction, record: ScannedRecord) -> Result<bool, Error> {
        let (mut buffer, bytes) = (Vec::new(), record.header.record_bytes());
        let read = compaction.reader.segment.read(record.at.offset, bytes, &mut buffer);
        let read = read.map_err(|error| Error::of_system("read from disk", &error))?;
        let body =
            read.filter(|read| read.header.has_body(read.body)).map(|read| read.body.to_vec());
        match body {
            Some(body) => self.moved.push(MovedRecord { record, body }),
            // Its value stays where it is, so that reads of it say that it is damaged.
            None => {
                compaction.is_intact = false;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All of a segment was read.
    fn finish(&mut self, compaction: &Compaction) {
        let (segment, at) = (&compaction.reader.segment, compaction.reader.at);
        // A segment with damage stays; it is not chosen again.
        let is_intact = compaction.is_intact && at >= segment.end();
        self.copied.push((segment.number, is_intact));
    }
}

/// The bytes that are copied between other writes.
const MAX_BYTES_AT_ONCE: usize = 4 << 20;
/// The bytes that are read for a batch, if they have nothing that is needed.
const MAX_BYTES_READ: usize = 8 << 20;
