//! A round: writes that are saved together, with the bytes of their values.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use kv_disk::{Body, CHUNK_BYTES, Change, RemovalCause};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Key;

use super::{Write, WriteKind};
use crate::engine::Engine;
use crate::engine::outcome::write_refused;
use crate::wakeup::Wakeup;

/// Writes whose conditions were checked, and chunks of a long value, to be saved together.
#[derive(Default)]
pub(super) struct Round {
    pub(super) writes: Vec<CheckedWrite>,
    pub(super) chunks: Vec<RoundChunk>,
    bytes: RoundBytes,
}

/// The versions that keys have after the writes of a round; `None`: the key is deleted.
pub(super) type Versions = HashMap<Box<[u8]>, Option<u64>>;

/// The bytes of the values of a round. The memory is used again by a later one, as it is: to clear it would cost as much as to fill it.
#[derive(Default)]
struct RoundBytes {
    memory: Vec<u8>,
    used: usize,
}

/// A write whose condition was checked, to be saved.
pub(super) struct CheckedWrite {
    pub(super) write: Write,
    pub(super) decision: Decision,
}

pub(super) enum Decision {
    /// Nothing to save.
    Answer(Answer),
    Put {
        version: u64,
        replaced: bool,
        /// In milliseconds since 1970; set when it begins to be saved.
        expires: Option<u64>,
        location: ValueLocation,
    },
    Delete {
        /// The version of the value that is deleted, and the one of its deletion.
        deleted: u64,
        version: u64,
    },
}

/// Where the bytes of a value are: in the round's bytes, or in saved chunks.
pub(super) enum ValueLocation {
    Round(Range<usize>),
    Chunks { value_id: u64 },
}

/// A chunk to be saved: its range of the round's bytes.
pub(super) struct RoundChunk {
    value_id: u64,
    number: u32,
    range: Range<usize>,
    /// Its end in the value.
    pub(super) end: u64,
}

impl Round {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.chunks.is_empty()
    }

    /// The bytes of its values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.used
    }

    /// Sets when its values expire on the disk: their time begins when they are saved.
    pub(super) fn set_expiries(&mut self, unix_now: u64) {
        for CheckedWrite { write, decision } in &mut self.writes {
            if let (Decision::Put { expires, .. }, WriteKind::Put { ttl, .. }) =
                (decision, &write.kind)
            {
                *expires = ttl.map(|ttl| unix_now.saturating_add(ttl).min(MAX_EXPIRY));
            }
        }
    }

    /// Takes out the writes, so that another round can use the memory.
    pub(super) fn take_writes(&mut self) -> Vec<CheckedWrite> {
        self.bytes.used = 0;
        self.chunks.clear();
        std::mem::take(&mut self.writes)
    }

    /// The changes of all its writes and chunks.
    pub(super) fn changes(&self) -> Vec<Change<'_>> {
        let mut changes = Vec::with_capacity(self.writes.len() + self.chunks.len());
        changes.extend(self.writes.iter().filter_map(|write| write.change(&self.bytes)));
        changes.extend(self.chunk_changes());
        changes
    }

    /// The change of one of its writes, if there is any.
    pub(super) fn change<'r>(&'r self, write: &'r CheckedWrite) -> Option<Change<'r>> {
        write.change(&self.bytes)
    }

    pub(super) fn chunk_changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.chunks.iter().map(|chunk| chunk.change(&self.bytes))
    }

    /// Decides what a write does, given the version of its key, and copies its value. `value_id`: of its chunks, if they are saved.
    pub(super) fn decide(
        &mut self,
        engine: &Engine,
        write: &Write,
        value_id: Option<u64>,
        current: Option<u64>,
    ) -> Decision {
        let refused = match (write.condition, current) {
            (Condition::Always, _) | (Condition::IfAbsent, None) => None,
            (Condition::IfVersion(wanted), Some(version)) if wanted == version => None,
            (Condition::IfAbsent, Some(version)) => Some(kv_store::WriteError::Exists { version }),
            (Condition::IfVersion(_), None) => Some(kv_store::WriteError::Absent),
            (Condition::IfVersion(_), Some(version)) => {
                Some(kv_store::WriteError::OtherVersion { version })
            }
        };
        if let Some(refused) = refused {
            return Decision::Answer(write_refused(&refused));
        }
        match (&write.kind, current) {
            (WriteKind::Delete, None) => Decision::Answer(Answer::new(Status::NotFound)),
            (WriteKind::Delete, Some(deleted)) => {
                Decision::Delete { deleted, version: engine.index.allocate_version() }
            }
            (WriteKind::Put { reserved, .. }, _) => {
                let location = match value_id {
                    Some(value_id) => ValueLocation::Chunks { value_id },
                    None => {
                        let reservation = reserved.reservation();
                        let (bytes, range) = self.bytes.take(reservation.length() as usize);
                        engine.copy_out(&reservation.ranges(), 0, bytes);
                        ValueLocation::Round(range)
                    }
                };
                let version = engine.index.allocate_version();
                Decision::Put { version, replaced: current.is_some(), expires: None, location }
            }
        }
    }

    /// Copies the next chunks of a long value, `saved` bytes of which are saved.
    pub(super) fn add_chunks(&mut self, engine: &Engine, write: &Write, value_id: u64, saved: u64) {
        let WriteKind::Put { reserved, .. } = &write.kind else { return };
        let (length, ranges) = (reserved.reservation().length(), reserved.reservation().ranges());
        let mut offset = saved;
        while offset < length && self.chunks.len() < MAX_ROUND_CHUNKS {
            let end = length.min(offset + CHUNK_BYTES as u64);
            let (bytes, range) = self.bytes.take((end - offset) as usize);
            engine.copy_out(&ranges, offset, bytes);
            let number = (offset / CHUNK_BYTES as u64) as u32;
            self.chunks.push(RoundChunk { value_id, number, range, end });
            offset = end;
        }
    }
}

impl RoundBytes {
    /// Takes so many bytes more, to be filled; returns them and their range.
    fn take(&mut self, length: usize) -> (&mut [u8], Range<usize>) {
        let range = self.used..self.used + length;
        self.used = range.end;
        if self.memory.len() < range.end {
            self.memory.resize(range.end, 0);
        }
        (&mut self.memory[range.clone()], range)
    }

    fn get(&self, range: &Range<usize>) -> &[u8] {
        &self.memory[range.clone()]
    }
}

impl RoundChunk {
    fn change<'c>(&self, bytes: &'c RoundBytes) -> Change<'c> {
        let RoundChunk { value_id, number, ref range, .. } = *self;
        Change::Chunk { value_id, number, bytes: bytes.get(range) }
    }
}

impl CheckedWrite {
    fn change<'c>(&'c self, bytes: &'c RoundBytes) -> Option<Change<'c>> {
        let key = &self.write.key[..];
        match (&self.decision, &self.write.kind) {
            (Decision::Put { version, expires, location, .. }, WriteKind::Put { reserved, .. }) => {
                let body = match location {
                    ValueLocation::Round(range) => Body::Inline(bytes.get(range)),
                    ValueLocation::Chunks { value_id } => Body::Chunks(*value_id),
                };
                let (version, expires) = (*version, *expires);
                let length = reserved.reservation().length();
                Some(Change::Put { shard: None, key, version, expires, length, body })
            }
            (Decision::Delete { version, .. }, _) => {
                let (version, cause) = (*version, RemovalCause::Deletion);
                Some(Change::Remove { shard: None, key, version, cause })
            }
            _ => None,
        }
    }

    pub(super) fn deletes(&self) -> bool {
        matches!(self.decision, Decision::Delete { .. })
    }

    /// The key that it changes, if any.
    pub(super) fn changed_key(&self) -> Option<&[u8]> {
        (!matches!(self.decision, Decision::Answer(_))).then_some(&self.write.key)
    }

    /// The version that its key has afterwards, if it changes it; `None`: it is deleted.
    pub(super) fn changed_version(&self) -> Option<Option<u64>> {
        match self.decision {
            Decision::Put { version, .. } => Some(Some(version)),
            Decision::Delete { .. } => Some(None),
            Decision::Answer(_) => None,
        }
    }

    /// Applies a durable write in memory, and answers it.
    pub(super) fn apply(self, engine: &Arc<Engine>) -> Option<Wakeup> {
        let CheckedWrite { write: Write { key: name, kind, done, .. }, decision } = self;
        let Ok(key) = Key::new(&name) else { return done(Answer::new(Status::Denied)) };
        let now = engine.now();
        let answer = match (decision, kind) {
            (Decision::Put { version, replaced, .. }, WriteKind::Put { reserved, ttl }) => {
                let (length, expires) = (reserved.reservation().length(), engine.expiry(ttl, now));
                // If the index is full the value is only on the disk, and is loaded when it is read.
                let _ = engine.index.commit_version(key, reserved.take(), version, expires, now);
                Answer { version, replaced, length, ..Answer::new(Status::Ok) }
            }
            (Decision::Delete { deleted, .. }, _) => {
                let always = kv_store::Condition::Always;
                let _ = engine.index.delete(key, always, now);
                Answer { version: deleted, ..Answer::new(Status::Ok) }
            }
            (Decision::Answer(answer), _) => answer,
            (Decision::Put { .. }, WriteKind::Delete) => Answer::new(Status::Denied),
        };
        done(answer)
    }
}

/// The chunks of a long value in one round.
const MAX_ROUND_CHUNKS: usize = 16;
/// The latest expiry that a row can store.
const MAX_EXPIRY: u64 = i64::MAX as u64;
