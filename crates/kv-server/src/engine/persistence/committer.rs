//! The committer: saves writes on the disk, then applies them in memory, then answers them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kv_disk::{Body, CHUNK_BYTES, Change, DiskWriter, Removal};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Key;

use super::{Command, PersistenceState, Write, WriteKind};
use crate::engine::Engine;
use crate::engine::outcome::write_refused;
use crate::wakeup::Wakeup;

/// Serves commands until `Stop`, or until the engine is dropped.
pub(super) fn run(
    engine: &Weak<Engine>,
    state: &PersistenceState,
    commands: &Receiver<Command>,
    disk: Box<dyn DiskWriter>,
) {
    let mut committer = Committer::new(disk);
    let (mut stops, mut maintained) = (false, Instant::now());
    let (mut due, mut checked) = (Some(maintained), maintained);
    while !stops || !committer.is_done() {
        // Polls while a long value is being written; else sleeps until the next command, or until something is due.
        let first = match committer.is_done() {
            false => commands.try_recv().map_err(|error| error == TryRecvError::Disconnected),
            true => commands
                .recv_timeout(due.map_or(CHECK_INTERVAL, |due| {
                    due.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL)
                }))
                .map_err(|error| error == RecvTimeoutError::Disconnected),
        };
        stops |= matches!(first, Err(true));
        let Some(engine) = engine.upgrade() else { return committer.abort() };
        let (mut writes, mut bytes_left, mut next) = (Vec::new(), MAX_ROUND_BYTES, first.ok());
        while let Some(command) = next.take() {
            match command {
                Command::Stop => stops = true,
                Command::Write(write) => {
                    bytes_left = bytes_left.saturating_sub(write.bytes() + 64);
                    writes.push(write);
                    next = if bytes_left > 0 { commands.try_recv().ok() } else { None };
                }
            }
        }
        let is_due = match writes.is_empty() && committer.is_done() {
            true => due.is_some_and(|due| due <= Instant::now()),
            false => {
                let was_due = due.is_some_and(|due| due <= Instant::now());
                state.counts.add_waiting(-(writes.len() as i64));
                let full = committer.round(&engine, state, writes);
                due = Some(Instant::now() + MAINTENANCE_DELAY);
                // A busy disk needs maintenance too, above all when it is full.
                full || was_due || maintained.elapsed() >= MAINTENANCE_INTERVAL
            }
        };
        if checked.elapsed() >= CHECK_INTERVAL {
            checked = Instant::now();
            committer.check_files(state);
        }
        if is_due {
            maintained = Instant::now();
            due = committer.maintain(&engine).map(|pause| maintained + pause);
        }
    }
}

pub(super) struct Committer {
    disk: Box<dyn DiskWriter>,
    /// Long values, written chunk by chunk between other writes.
    long: VecDeque<LongWrite>,
    bytes: RoundBytes,
}

/// The bytes of the values of a round. The memory is used again by the next one, as it is: to clear it would cost as much as to fill it.
#[derive(Default)]
struct RoundBytes {
    memory: Vec<u8>,
    used: usize,
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

struct LongWrite {
    write: Write,
    owner: u64,
    /// The number of bytes saved.
    saved: u64,
}

/// The writes and chunks that were saved together, and for how long.
struct Round<'p> {
    checked: Vec<CheckedWrite>,
    chunks: &'p [RoundChunk],
    took: Duration,
}

/// A write whose condition was checked, to be saved.
struct CheckedWrite {
    write: Write,
    decision: Decision,
}

enum Decision {
    /// Nothing to save.
    Answer(Answer),
    Put {
        version: u64,
        replaced: bool,
        location: ValueLocation,
    },
    Delete {
        /// The version of the value that is deleted, and the one of its deletion.
        deleted: u64,
        version: u64,
    },
}

/// Where the bytes of a value are: in the round's bytes, or in saved chunks.
enum ValueLocation {
    Round(Range<usize>),
    Chunks { owner: u64 },
}

impl Committer {
    pub(super) fn new(disk: Box<dyn DiskWriter>) -> Self {
        Committer { disk, long: VecDeque::new(), bytes: RoundBytes::default() }
    }

    /// Whether no long value is being written.
    pub(super) fn is_done(&self) -> bool {
        self.long.is_empty()
    }

    /// Saves writes, and some chunks of the first long value; returns whether the disk is full.
    pub(super) fn round(
        &mut self,
        engine: &Arc<Engine>,
        state: &PersistenceState,
        writes: Vec<Write>,
    ) -> bool {
        self.bytes.used = 0;
        let mut checked = Vec::with_capacity(writes.len());
        let mut written = HashMap::new();
        for write in writes {
            match write.kind {
                WriteKind::Put { ref reserved, .. }
                    if reserved.reservation().length() > CHUNK_BYTES as u64 =>
                {
                    let owner = engine.index.allocate_version();
                    self.long.push_back(LongWrite { write, owner, saved: 0 });
                }
                _ => checked.push(self.check(engine, write, None, &mut written)),
            }
        }
        // A long value whose chunks are all saved is checked like a short one.
        if self.long.front().is_some_and(LongWrite::is_complete)
            && let Some(LongWrite { write, owner, .. }) = self.long.pop_front()
        {
            checked.push(self.check(engine, write, Some(owner), &mut written));
        }
        let chunks = self.copy_chunks(engine);
        // Until the changes are applied in memory too, or refused.
        let _saving = state.busy_keys.save(checked.iter().filter_map(CheckedWrite::changed_key));
        let started = Instant::now();
        state.counts.begin_save(started);
        let saved = self.save(engine, &checked, &chunks);
        match saved {
            Err(error) if error.kind() == kv_disk::ErrorKind::Damaged => {
                self.save_one_by_one(engine, state, checked, &chunks)
            }
            // Deletions are what a full disk needs.
            Err(error)
                if error.kind() == kv_disk::ErrorKind::Full
                    && checked.iter().any(CheckedWrite::deletes)
                    && (checked.len() > 1 || !chunks.is_empty()) =>
            {
                self.save_one_by_one(engine, state, checked, &chunks)
            }
            saved => {
                let round = Round { checked, chunks: &chunks, took: started.elapsed() };
                self.conclude(engine, state, round, saved)
            }
        }
    }

    fn save(
        &mut self,
        engine: &Engine,
        checked: &[CheckedWrite],
        chunks: &[RoundChunk],
    ) -> Result<(), kv_disk::Error> {
        let mut changes = Vec::with_capacity(checked.len() + chunks.len());
        changes.extend(checked.iter().filter_map(|checked| checked.change(engine, &self.bytes)));
        changes.extend(chunks.iter().map(|chunk| chunk.change(&self.bytes)));
        if changes.is_empty() { Ok(()) } else { self.disk.save(&changes) }
    }

    /// Saves each write by itself: some keys are in a damaged part of the index, or some writes have no
    /// space, and the others should be saved.
    fn save_one_by_one(
        &mut self,
        engine: &Arc<Engine>,
        state: &PersistenceState,
        checked: Vec<CheckedWrite>,
        chunks: &[RoundChunk],
    ) -> bool {
        let (mut full, mut refused) = (false, HashMap::new());
        for checked in checked {
            let started = Instant::now();
            state.counts.begin_save(started);
            // A write that was checked against a refused one is refused too.
            if let Some(status) = refused.get(&checked.write.key) {
                self.refuse(checked, *status);
                continue;
            }
            // What stores a value has no space either.
            if full && !checked.deletes() && checked.changed_key().is_some() {
                refused.insert(checked.write.key.clone(), Status::DiskFull);
                self.refuse(checked, Status::DiskFull);
                continue;
            }
            match self.save(engine, std::slice::from_ref(&checked), &[]) {
                Err(error) if error.kind() == kv_disk::ErrorKind::Damaged => {
                    tracing::error!(%error, "write refused");
                    state.counts.damaged.fetch_add(1, Relaxed);
                    refused.insert(checked.write.key.clone(), Status::Damaged);
                    self.refuse(checked, Status::Damaged);
                }
                saved => {
                    if let Err(error) = &saved {
                        refused.insert(checked.write.key.clone(), refusal(error));
                    }
                    let round =
                        Round { checked: vec![checked], chunks: &[], took: started.elapsed() };
                    full |= self.conclude(engine, state, round, saved);
                }
            }
        }
        let started = Instant::now();
        state.counts.begin_save(started);
        let saved = self.save(engine, &[], chunks);
        let round = Round { checked: Vec::new(), chunks, took: started.elapsed() };
        full | self.conclude(engine, state, round, saved)
    }

    /// Applies writes that were saved, and refuses them if the save failed; returns whether the disk is full.
    fn conclude(
        &mut self,
        engine: &Arc<Engine>,
        state: &PersistenceState,
        Round { checked, chunks, took }: Round<'_>,
        saved: Result<(), kv_disk::Error>,
    ) -> bool {
        let writes = checked.len() as u64;
        let changed = state.counts.saved(writes, took, saved.is_ok(), engine.unix_now());
        let Err(error) = saved else {
            if changed {
                tracing::info!("writes to disk succeed again");
            }
            if let (Some(long), Some(last)) = (self.long.front_mut(), chunks.last()) {
                long.saved = last.end;
            }
            // All answers are queued before any thread is woken.
            Wakeup::wake_all(checked.into_iter().filter_map(|checked| checked.apply(engine)));
            return false;
        };
        if changed {
            tracing::error!(%error, "cannot write to disk, refusing writes");
        }
        let status = refusal(&error);
        checked.into_iter().for_each(|checked| self.refuse(checked, status));
        if !chunks.is_empty()
            && let Some(LongWrite { write, owner, .. }) = self.long.pop_front()
        {
            self.disk.discard_chunks(owner);
            Wakeup::wake_all((write.done)(Answer::new(status)));
        }
        // Do not retry immediately if the disk fails immediately.
        std::thread::sleep(FAILURE_PAUSE);
        status == Status::DiskFull
    }

    /// Refuses a write that could not be saved, or that depends on one.
    fn refuse(&mut self, CheckedWrite { write, decision }: CheckedWrite, status: Status) {
        if let Decision::Put { location: ValueLocation::Chunks { owner }, .. } = decision {
            self.disk.discard_chunks(owner);
        }
        Wakeup::wake_all((write.done)(Answer::new(status)));
    }

    /// Checks the condition of a write, given the writes before it in this round.
    fn check(
        &mut self,
        engine: &Engine,
        write: Write,
        owner: Option<u64>,
        written: &mut HashMap<Box<[u8]>, Option<u64>>,
    ) -> CheckedWrite {
        let current = match written.get(&write.key) {
            Some(version) => Ok(*version),
            None => self.current(engine, &write.key),
        };
        let current = match current {
            Ok(current) => current,
            Err(error) => {
                tracing::error!(%error, "write refused");
                self.discard(owner);
                return CheckedWrite {
                    write,
                    decision: Decision::Answer(Answer::new(refusal(&error))),
                };
            }
        };
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
            self.discard(owner);
            return CheckedWrite { write, decision: Decision::Answer(write_refused(&refused)) };
        }
        let decision = match (&write.kind, current) {
            (WriteKind::Delete, None) => Decision::Answer(Answer::new(Status::NotFound)),
            (WriteKind::Delete, Some(deleted)) => {
                Decision::Delete { deleted, version: engine.index.allocate_version() }
            }
            (WriteKind::Put { reserved, .. }, _) => {
                let location = match owner {
                    Some(owner) => ValueLocation::Chunks { owner },
                    None => {
                        let reservation = reserved.reservation();
                        let (bytes, range) = self.bytes.take(reservation.length() as usize);
                        engine.copy_out(&reservation.ranges(), 0, bytes);
                        ValueLocation::Round(range)
                    }
                };
                let version = engine.index.allocate_version();
                Decision::Put { version, replaced: current.is_some(), location }
            }
        };
        match decision {
            Decision::Put { version, .. } => _ = written.insert(write.key.clone(), Some(version)),
            Decision::Delete { .. } => _ = written.insert(write.key.clone(), None),
            Decision::Answer(_) => {}
        }
        CheckedWrite { write, decision }
    }

    fn discard(&mut self, owner: Option<u64>) {
        if let Some(owner) = owner {
            self.disk.discard_chunks(owner);
        }
    }

    /// The version of a key: in memory, or else on the disk.
    fn current(&mut self, engine: &Engine, key: &[u8]) -> Result<Option<u64>, kv_disk::Error> {
        let in_memory = Key::new(key).ok().and_then(|key| engine.index.stat(key, engine.now()));
        if let Some(metadata) = in_memory {
            return Ok(Some(metadata.version));
        }
        let on_disk = self.disk.stat(key)?;
        let live = on_disk.and_then(|metadata| engine.metadata_of(&metadata));
        Ok(live.map(|metadata| metadata.version))
    }

    /// Copies the next chunks of the first long value.
    fn copy_chunks(&mut self, engine: &Engine) -> Vec<RoundChunk> {
        let Some(LongWrite { write, owner, saved }) = self.long.front() else { return Vec::new() };
        let WriteKind::Put { reserved, .. } = &write.kind else { return Vec::new() };
        let (length, ranges) = (reserved.reservation().length(), reserved.reservation().ranges());
        let mut chunks = Vec::new();
        let mut offset = *saved;
        while offset < length && chunks.len() < MAX_ROUND_CHUNKS {
            let end = length.min(offset + CHUNK_BYTES as u64);
            let (bytes, range) = self.bytes.take((end - offset) as usize);
            engine.copy_out(&ranges, offset, bytes);
            let number = (offset / CHUNK_BYTES as u64) as u32;
            chunks.push(RoundChunk { owner: *owner, number, range, end });
            offset = end;
        }
        chunks
    }

    /// Notices a directory that was removed although nothing is written.
    fn check_files(&mut self, state: &PersistenceState) {
        let checked = self.disk.check_files();
        if state.counts.set_removed(checked.is_err()) {
            match checked {
                Ok(()) => tracing::info!("the data files can be used again"),
                Err(error) => tracing::error!(%error, "the data files cannot be used"),
            }
        }
    }

    /// Removes expired values and unused chunks from the disk; returns when to do so again.
    fn maintain(&mut self, engine: &Engine) -> Option<Duration> {
        match self.disk.clean_up(engine.unix_now()) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, "disk maintenance failed");
                Some(MAINTENANCE_RETRY)
            }
        }
    }

    /// Answers all pending writes as failed: the engine was dropped.
    fn abort(&mut self) {
        for LongWrite { write, .. } in self.long.drain(..) {
            Wakeup::wake_all((write.done)(Answer::new(Status::DiskFailed)));
        }
    }
}

fn refusal(error: &kv_disk::Error) -> Status {
    match error.kind() {
        kv_disk::ErrorKind::Full => Status::DiskFull,
        kv_disk::ErrorKind::Damaged => Status::Damaged,
        _ => Status::DiskFailed,
    }
}

impl Write {
    fn bytes(&self) -> usize {
        match &self.kind {
            WriteKind::Put { reserved, .. }
                if reserved.reservation().length() <= CHUNK_BYTES as u64 =>
            {
                reserved.reservation().length() as usize
            }
            _ => 0,
        }
    }
}

impl LongWrite {
    fn is_complete(&self) -> bool {
        matches!(&self.write.kind, WriteKind::Put { reserved, .. } if reserved.reservation().length() == self.saved)
    }
}

/// A chunk to be saved: its range of the round's bytes.
struct RoundChunk {
    owner: u64,
    number: u32,
    range: Range<usize>,
    /// Its end in the value.
    end: u64,
}

impl RoundChunk {
    fn change<'c>(&self, bytes: &'c RoundBytes) -> Change<'c> {
        let RoundChunk { owner, number, ref range, .. } = *self;
        Change::Chunk { owner, number, bytes: bytes.get(range) }
    }
}

impl CheckedWrite {
    fn change<'c>(&'c self, engine: &Engine, bytes: &'c RoundBytes) -> Option<Change<'c>> {
        let key = &self.write.key[..];
        match (&self.decision, &self.write.kind) {
            (Decision::Put { version, location, .. }, WriteKind::Put { reserved, ttl }) => {
                let body = match location {
                    ValueLocation::Round(range) => Body::Inline(bytes.get(range)),
                    ValueLocation::Chunks { owner } => Body::Chunks(*owner),
                };
                let expires = ttl.map(|ttl| engine.unix_now().saturating_add(ttl).min(MAX_EXPIRY));
                let (version, length) = (*version, reserved.reservation().length());
                Some(Change::Put { shard: None, key, version, expires, length, body })
            }
            (Decision::Delete { version, .. }, _) => {
                let (version, cause) = (*version, Removal::Deletion);
                Some(Change::Remove { shard: None, key, version, cause })
            }
            _ => None,
        }
    }

    fn deletes(&self) -> bool {
        matches!(self.decision, Decision::Delete { .. })
    }

    /// The key that it changes, if any.
    fn changed_key(&self) -> Option<&[u8]> {
        (!matches!(self.decision, Decision::Answer(_))).then_some(&self.write.key)
    }

    /// Applies a durable write in memory, and answers it.
    fn apply(self, engine: &Arc<Engine>) -> Option<Wakeup> {
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

/// The bytes of a round, and the chunks of a long value in addition.
const MAX_ROUND_BYTES: usize = 8 << 20;
const MAX_ROUND_CHUNKS: usize = 16;
/// How long to wait after a write before disk maintenance, and after maintenance failed.
const MAINTENANCE_DELAY: Duration = Duration::from_millis(200);
const MAINTENANCE_RETRY: Duration = Duration::from_secs(10);
/// How long maintenance may be put off while there are writes.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the files are checked, also while nothing is written.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait after a failed save.
const FAILURE_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 10 });
/// The latest expiry that a row can store.
const MAX_EXPIRY: u64 = i64::MAX as u64;
