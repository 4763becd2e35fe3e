//! Loads values, metadata and keys that are not in memory from the disk.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use kv_disk::{CachedRead, DiskReader, Metadata, Sink};
use kv_proto::wire::Status;
use kv_store::{Key, Pinned, ReserveError};

use super::busy_keys::SaveCount;
use super::{Load, LoadKind, PersistenceState, ReadResult, next};
use crate::engine::{Engine, PinnedValue, ReservedValue};

/// Serves loads until the queue ends.
pub(super) fn run(
    engine: &Weak<Engine>,
    state: &PersistenceState,
    loads: &Mutex<Receiver<Option<Load>>>,
    mut reader: impl DiskReader,
) {
    while let Some(Load { key, kind, done }) = next(loads) {
        let Some(engine) = engine.upgrade() else { return };
        let loaded = match kind {
            LoadKind::Value => value(&engine, state, &mut reader, &key),
            LoadKind::Metadata => metadata(&engine, state, &mut reader, &key),
            LoadKind::Keys { cursor, max_keys, max_bytes } => {
                keys(&engine, state, &mut reader, &key, (cursor, max_keys, max_bytes))
            }
        };
        done(loaded.unwrap_or_else(|error| failed(state, &error)));
    }
}

fn failed(state: &PersistenceState, error: &kv_disk::Error) -> ReadResult {
    tracing::error!(%error, "cannot read a value from disk");
    if error.kind() == kv_disk::ErrorKind::Damaged {
        state.counts.damaged.fetch_add(1, Relaxed);
        return ReadResult::Failed(Status::Damaged);
    }
    ReadResult::Failed(Status::DiskFailed)
}

/// Loads a value into memory and commits it to its key, unless the key was written in the meantime: then it starts
/// again.
pub(super) fn value(
    engine: &Arc<Engine>,
    state: &PersistenceState,
    reader: &mut dyn DiskReader,
    name: &[u8],
) -> Result<ReadResult, kv_disk::Error> {
    let Ok(key) = Key::new(name) else { return Ok(ReadResult::Value(None)) };
    for _ in 0..MAX_ATTEMPTS {
        if let Some(pinned) = engine.index.pin(key, engine.now()) {
            return Ok(found(engine, pinned));
        }
        let saves = state.busy_keys.begin(name);
        let mut sink = PoolSink::new(engine);
        let read = reader.read(name, &mut sink).map(|read| read.is_some());
        if let Some(loaded) = commit(engine, state, key, saves, sink, &read) {
            return Ok(loaded);
        }
        // It was written in the meantime, or evicted immediately. A key that is written all the time had no value, if that is still so
        // in memory when what the disk has is there too.
        if !read? {
            state.busy_keys.wait_for_saves();
            let pinned = engine.index.pin(key, engine.now());
            return Ok(pinned.map_or(ReadResult::Value(None), |pinned| found(engine, pinned)));
        }
    }
    Ok(ReadResult::Failed(Status::Full))
}

/// The same without waiting, for a thread that serves others too. `None`: it must be loaded by a loader.
fn cached_value(
    engine: &Arc<Engine>,
    state: &PersistenceState,
    reader: &mut dyn DiskReader,
    name: &[u8],
) -> Option<ReadResult> {
    let key = Key::new(name).ok()?;
    let saves = state.busy_keys.try_begin(name)?;
    let mut sink = PoolSink::new(engine);
    let read = match reader.read_cached(name, &mut sink) {
        Ok(CachedRead::Read) => Ok(true),
        Ok(CachedRead::Absent) => Ok(false),
        // A loader reports an error.
        Ok(CachedRead::Waits) | Err(_) => {
            let _ = state.busy_keys.end(name, saves, || ());
            return None;
        }
    };
    commit(engine, state, key, saves, sink, &read)
}

/// Reads values that need not be waited for, in a thread that serves others too.
pub(crate) struct CachedReader {
    reader: kv_disk::Reader,
    state: Arc<PersistenceState>,
    /// Loads that are left to loaders, since a read took long: its index was not in memory.
    skipped: u32,
}

impl CachedReader {
    pub(super) fn new(reader: kv_disk::Reader, state: Arc<PersistenceState>) -> Self {
        CachedReader { reader, state, skipped: 0 }
    }

    /// To be called when there may be no other read for long.
    pub(crate) fn release(&mut self) {
        self.reader.release();
    }

    /// A value that is not in memory. `None`: it must be loaded by a loader.
    pub(crate) fn value(&mut self, engine: &Arc<Engine>, key: &[u8]) -> Option<ReadResult> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return None;
        }
        let started = Instant::now();
        let loaded = cached_value(engine, &self.state, &mut self.reader, key);
        if started.elapsed() > MAX_CACHED_READ {
            self.skipped = SKIPPED_LOADS;
        }
        loaded
    }
}

fn found(engine: &Arc<Engine>, pinned: Pinned) -> ReadResult {
    ReadResult::Value(Some(Arc::new(PinnedValue::new(engine.clone(), pinned))))
}

/// Commits a value that was read to its key, unless the key was written in the meantime: then there is no result, nor if reading
/// failed. `read`: whether there is a value.
fn commit(
    engine: &Arc<Engine>,
    state: &PersistenceState,
    key: Key<'_>,
    saves: SaveCount,
    sink: PoolSink<'_>,
    read: &Result<bool, kv_disk::Error>,
) -> Option<ReadResult> {
    let PoolSink { value, refusal, .. } = sink;
    // A partial value is discarded.
    let value = value.filter(|_| matches!(read, Ok(true)));
    let pin = || engine.index.pin(key, engine.now());
    let has_value = value.is_some();
    let committed = state.busy_keys.end(key.as_bytes(), saves, || {
        // Another loader may have loaded it: a version must not be committed twice.
        if let Some(pinned) = pin() {
            return Some(pinned);
        }
        let (reserved, metadata) = value?;
        let (expires, now) = (engine.timestamp_of(metadata.expires), engine.now());
        let committed =
            engine.index.commit_version(key, reserved.take(), metadata.version, expires, now);
        committed.ok().and_then(|_| pin())
    });
    let is_current = committed.is_some();
    if let Some(pinned) = committed.flatten() {
        state.counts.loads.fetch_add(1, Relaxed);
        return Some(found(engine, pinned));
    }
    match (read, refusal) {
        (Ok(true), Some(status)) => Some(ReadResult::Failed(status)),
        // The key does not exist, or has expired.
        (Ok(_), _) if is_current && !has_value => Some(ReadResult::Value(None)),
        _ => None,
    }
}

/// The metadata of a key that was not in memory. It must not be newer than what a reader finds: so if it was saved
/// meanwhile, this waits until that is in memory.
fn metadata(
    engine: &Engine,
    state: &PersistenceState,
    reader: &mut dyn DiskReader,
    name: &[u8],
) -> Result<ReadResult, kv_disk::Error> {
    let Ok(key) = Key::new(name) else { return Ok(ReadResult::Metadata(None)) };
    let in_memory = engine.index.stat(key, engine.now());
    if in_memory.is_some() {
        return Ok(ReadResult::Metadata(in_memory));
    }
    let saves = state.busy_keys.begin(name);
    let read = reader.stat(name);
    if state.busy_keys.end(name, saves, || ()).is_none() {
        // Then a reader finds it too.
        state.busy_keys.wait_for_saves();
    }
    Ok(ReadResult::Metadata(read?.and_then(|metadata| engine.metadata_of(&metadata))))
}

/// Reserves memory in the pool for a value from the disk, and fills it.
struct PoolSink<'e> {
    engine: &'e Arc<Engine>,
    value: Option<(ReservedValue, Metadata)>,
    /// Why no memory could be reserved.
    refusal: Option<Status>,
}

impl<'e> PoolSink<'e> {
    fn new(engine: &'e Arc<Engine>) -> Self {
        PoolSink { engine, value: None, refusal: None }
    }
}

impl Sink for PoolSink<'_> {
    fn begin(&mut self, metadata: &Metadata) -> bool {
        if self.engine.metadata_of(metadata).is_none() {
            return false;
        }
        match self.engine.index.reserve(metadata.length, self.engine.now()) {
            Ok(reservation) => {
                let reserved = ReservedValue::new(self.engine.clone(), reservation, None);
                self.value = Some((reserved, *metadata));
            }
            Err(ReserveError::TooLong { .. }) => self.refusal = Some(Status::TooLong),
            Err(ReserveError::Full { .. }) => self.refusal = Some(Status::Full),
        }
        self.value.is_some()
    }

    fn bytes(&mut self, offset: u64, bytes: &[u8]) {
        if let Some((reserved, _)) = &self.value {
            self.engine.fill(reserved.reservation(), offset, bytes);
        }
    }
}

fn keys(
    engine: &Engine,
    state: &PersistenceState,
    reader: &mut dyn DiskReader,
    prefix: &[u8],
    (cursor, max_keys, max_bytes): (u64, usize, usize),
) -> Result<ReadResult, kv_disk::Error> {
    let Some(after) = state.cursors.get(cursor) else {
        return Ok(ReadResult::Failed(Status::NoHandle));
    };
    let listed = reader.list(prefix, &after, (max_keys, max_bytes), engine.unix_now())?;
    let next = listed.last().map_or(0, |(key, _)| state.cursors.set(key));
    let known =
        |(key, metadata): (Box<[u8]>, Metadata)| Some((key, engine.metadata_of(&metadata)?));
    Ok(ReadResult::Keys(listed.into_iter().filter_map(known).collect(), next))
}

/// Attempts to load a value that is written repeatedly.
const MAX_ATTEMPTS: usize = 16;
/// A read that takes longer keeps others waiting; so many loads are then left to loaders.
const MAX_CACHED_READ: Duration = Duration::from_micros(300);
const SKIPPED_LOADS: u32 = 64;
