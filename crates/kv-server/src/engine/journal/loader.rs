//! Fetches from the disk what is not in memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, Weak};

use kv_disk::{DiskReader, Facts, Sink};
use kv_proto::wire::Status;
use kv_store::{Key, ReserveError};

use super::{JournalState, Load, Loaded, Wanted, next};
use crate::engine::{Engine, Held, Staged};

/// Fetches until nobody asks any more.
pub(super) fn run(
    engine: &Weak<Engine>,
    state: &JournalState,
    loads: &Mutex<Receiver<Option<Load>>>,
    mut reader: impl DiskReader,
) {
    while let Some(Load { key, wanted, done }) = next(loads) {
        let Some(engine) = engine.upgrade() else { return };
        let loaded = match wanted {
            Wanted::Value => value(&engine, state, &mut reader, &key),
            Wanted::Facts => facts(&engine, state, &mut reader, &key),
            Wanted::Keys { cursor, most, bytes } => {
                keys(&engine, state, &mut reader, &key, (cursor, most, bytes))
            }
        };
        done(loaded.unwrap_or_else(|error| failed(state, &error)));
    }
}

fn failed(state: &JournalState, error: &kv_disk::Error) -> Loaded {
    tracing::error!(%error, "a value cannot be read");
    if error.kind() == kv_disk::Kind::Damaged {
        state.counts.damaged.fetch_add(1, Relaxed);
        return Loaded::Failed(Status::Damaged);
    }
    Loaded::Failed(Status::DiskFailed)
}

/// A value comes into memory, and becomes its key's there unless it was written meanwhile: then what was written is
/// looked for.
pub(super) fn value(
    engine: &Arc<Engine>,
    state: &JournalState,
    reader: &mut dyn DiskReader,
    name: &[u8],
) -> Result<Loaded, kv_disk::Error> {
    let Ok(key) = Key::new(name) else { return Ok(Loaded::Value(None)) };
    let hold = || engine.store.pin(key, engine.now());
    let held = |pinned| Loaded::Value(Some(Arc::new(Held::new(engine.clone(), pinned))));
    for _ in 0..ATTEMPTS {
        if let Some(pinned) = hold() {
            return Ok(held(pinned));
        }
        let begun = state.loading.begin(name);
        let mut sink = PoolSink { engine, taken: None, none: None };
        let read = reader.read(name, &mut sink);
        let PoolSink { taken, none, .. } = sink;
        // What came only in part is nothing.
        let taken = taken.filter(|_| matches!(read, Ok(Some(true))));
        let kept = state.loading.end(name, begun, || {
            // Somebody else may have fetched it meanwhile: one version must not be there twice.
            if let Some(pinned) = hold() {
                return Some(pinned);
            }
            let (staged, facts) = taken?;
            let (expires, now) = (engine.moment_of(facts.expires), engine.now());
            let settled =
                engine.store.commit_version(key, staged.take(), facts.version, expires, now);
            settled.ok().and_then(|_| hold())
        });
        let current = kept.is_some();
        if let Some(pinned) = kept.flatten() {
            state.counts.loads.fetch_add(1, Relaxed);
            return Ok(held(pinned));
        }
        match (read?, none) {
            (Some(false), Some(status)) => return Ok(Loaded::Failed(status)),
            // There is none, or it has expired.
            (None | Some(false), _) if current => return Ok(Loaded::Value(None)),
            // It was written meanwhile, or evicted at once.
            _ => {}
        }
    }
    Ok(Loaded::Failed(Status::Full))
}

/// What is known of a key that is not in memory, or was not a moment ago. It must not be newer than what a reader
/// finds there: so it is looked for again if the key is saved meanwhile.
fn facts(
    engine: &Engine,
    state: &JournalState,
    reader: &mut dyn DiskReader,
    name: &[u8],
) -> Result<Loaded, kv_disk::Error> {
    let Ok(key) = Key::new(name) else { return Ok(Loaded::Facts(None)) };
    loop {
        let begun = state.loading.begin(name);
        let hot = engine.store.stat(key, engine.now());
        let read = if hot.is_some() { Ok(None) } else { reader.stat(name) };
        if state.loading.end(name, begun, || ()).is_some() {
            let cold = |facts: Facts| engine.facts_of(&facts);
            return Ok(Loaded::Facts(hot.or(read?.and_then(cold))));
        }
    }
}

/// Room in the pool for what comes from the disk.
struct PoolSink<'e> {
    engine: &'e Arc<Engine>,
    taken: Option<(Staged, Facts)>,
    /// Why there is none.
    none: Option<Status>,
}

impl Sink for PoolSink<'_> {
    fn begin(&mut self, facts: &Facts) -> bool {
        if self.engine.facts_of(facts).is_none() {
            return false;
        }
        match self.engine.store.reserve(facts.length, self.engine.now()) {
            Ok(room) => self.taken = Some((Staged::new(self.engine.clone(), room, None), *facts)),
            Err(ReserveError::TooLong { .. }) => self.none = Some(Status::TooLong),
            Err(ReserveError::Full { .. }) => self.none = Some(Status::Full),
        }
        self.taken.is_some()
    }

    fn bytes(&mut self, offset: u64, bytes: &[u8]) {
        if let Some((staged, _)) = &self.taken {
            self.engine.fill(staged.room(), offset, bytes);
        }
    }
}

fn keys(
    engine: &Engine,
    state: &JournalState,
    reader: &mut dyn DiskReader,
    prefix: &[u8],
    (cursor, most, bytes): (u64, usize, usize),
) -> Result<Loaded, kv_disk::Error> {
    let Some(after) = state.cursors.get(cursor) else {
        return Ok(Loaded::Failed(Status::NoHandle));
    };
    let listed = reader.list(prefix, &after, (most, bytes), engine.unix_now())?;
    let next = listed.last().map_or(0, |(key, _)| state.cursors.set(key));
    let known = |(key, facts): (Box<[u8]>, Facts)| Some((key, engine.facts_of(&facts)?));
    Ok(Loaded::Keys(listed.into_iter().filter_map(known).collect(), next))
}

/// How often a value is fetched that is written again and again.
const ATTEMPTS: usize = 16;
