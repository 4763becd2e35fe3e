//! The committer: has writes saved on the disk, then applies them in memory, then answers them.
//!
//! While the disk saves a round, the next one is prepared: its conditions are checked as if the earlier one had succeeded, and its values
//! are copied. If the earlier one fails, they are checked again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kv_disk::{CHUNK_BYTES, DiskReader};
use kv_proto::wire::{Answer, Status};
use kv_store::Key;

use super::busy_keys::SavingGuard;
use super::round::{CheckedWrite, Decision, Round, ValueLocation, Versions};
use super::saver::{SavedRound, Saver};
use super::{Command, PersistenceState, Write, WriteKind};
use crate::engine::Engine;
use crate::wakeup::Wakeup;

/// Serves commands until `Stop`, or until the engine is dropped.
pub(super) fn run(engine: &Weak<Engine>, commands: &Receiver<Command>, mut committer: Committer) {
    let mut stops = false;
    while !stops || !committer.is_done() {
        let first = committer.next_command(commands);
        stops |= matches!(first, Err(true));
        let Some(engine) = engine.upgrade() else { return committer.abort() };
        let (mut next, mut taken) = (first.ok(), 0);
        while let Some(command) = next.take() {
            match command {
                Command::Stop => stops = true,
                Command::SaveEnded => break,
                Command::Write(write) => committer.add(&engine, write),
            }
            taken += 1;
            let takes_more = taken < MAX_COMMANDS && !committer.is_full();
            next = if takes_more { commands.try_recv().ok() } else { None };
        }
        committer.step(&engine);
    }
}

pub(super) struct Committer {
    pub(super) saver: Saver,
    reader: Box<dyn DiskReader>,
    state: Arc<PersistenceState>,
    /// Long values, written chunk by chunk between other writes.
    long: VecDeque<LongWrite>,
    /// The round that is prepared, and the versions after it.
    next: Round,
    next_versions: Versions,
    /// The round that is being saved, and the one that was saved and is not yet applied in memory.
    saving: Option<SavingRound>,
    applying: Option<SavingRound>,
    /// A round whose memory can be used again.
    spare: Round,
    maintenance: Maintenance,
}

struct LongWrite {
    write: Write,
    value_id: u64,
    /// The number of bytes saved.
    saved: u64,
}

struct SavingRound {
    versions: Versions,
    /// Until the changes are applied in memory too, or refused.
    _busy: SavingGuard,
}

/// When the disk was last maintained, and will be.
struct Maintenance {
    last: Instant,
    /// When there is something to remove.
    due: Option<Instant>,
    /// Whether that was so when the last round began.
    was_due: bool,
    /// When its files were last checked.
    files_checked: Instant,
}

impl Maintenance {
    /// How long to wait if nothing is written.
    fn pause(&self) -> Duration {
        self.due.map_or(CHECK_INTERVAL, |due| {
            due.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL)
        })
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }
}

impl Committer {
    pub(super) fn new(
        saver: Saver,
        reader: Box<dyn DiskReader>,
        state: Arc<PersistenceState>,
    ) -> Self {
        let now = Instant::now();
        Committer {
            saver,
            reader,
            state,
            long: VecDeque::new(),
            next: Round::default(),
            next_versions: Versions::new(),
            saving: None,
            applying: None,
            spare: Round::default(),
            maintenance: Maintenance {
                last: now,
                due: Some(now),
                was_due: false,
                files_checked: now,
            },
        }
    }

    /// Whether nothing is left to be saved.
    pub(super) fn is_done(&self) -> bool {
        self.long.is_empty() && self.saving.is_none() && self.next.is_empty()
    }

    /// Whether the next round has as many bytes as it may have.
    fn is_full(&self) -> bool {
        self.next.bytes() + self.next.writes.len() * WRITE_BYTES >= MAX_ROUND_BYTES
    }

    /// The next command, if there is any before something else is to be done. `Err(true)`: there will be none.
    fn next_command(&mut self, commands: &Receiver<Command>) -> Result<Command, bool> {
        let limit = match &self.saving {
            Some(_) if self.is_full() => return Err(false),
            // The end of the save is a command too.
            Some(_) => CHECK_INTERVAL,
            None if !self.is_done() => {
                return commands.try_recv().map_err(|error| error == TryRecvError::Disconnected);
            }
            None => self.maintenance.pause(),
        };
        commands.recv_timeout(limit).map_err(|error| error == RecvTimeoutError::Disconnected)
    }

    /// Adds a write to the next round.
    pub(super) fn add(&mut self, engine: &Engine, write: Write) {
        match &write.kind {
            WriteKind::Put { reserved, .. }
                if reserved.reservation().length() > CHUNK_BYTES as u64 =>
            {
                self.state.counts.add_waiting(-1);
                let value_id = engine.index.allocate_version();
                self.long.push_back(LongWrite { write, value_id, saved: 0 });
            }
            _ => self.check(engine, write, None),
        }
    }

    /// Concludes the round that was saved, if any, and begins to save the next one; looks after an idle disk.
    fn step(&mut self, engine: &Arc<Engine>) {
        if self.saving.is_some() {
            let saved =
                if self.is_full() { Some(self.saver.wait()) } else { self.saver.try_wait() };
            if let Some(saved) = saved {
                self.conclude(engine, saved);
            }
        } else if self.is_done() {
            if self.maintenance.is_due() {
                self.maintain(engine);
            }
            self.check_files();
        } else if self.next.writes.len() == 1 && self.long.is_empty() {
            // It would take longer to hand it over than anything gains that comes meanwhile.
            if let Some(round) = self.begin(engine) {
                let saved = self.saver.save_now(round);
                self.conclude(engine, saved);
            }
        } else {
            self.begin_next(engine);
        }
    }

    fn begin_next(&mut self, engine: &Arc<Engine>) {
        if let Some(round) = self.begin(engine) {
            self.saver.begin(round);
        }
    }

    /// Completes the next round; the one before was saved. `None`: it is empty.
    fn begin(&mut self, engine: &Engine) -> Option<Round> {
        self.state.counts.add_waiting(-(self.next.writes.len() as i64));
        // A long value whose chunks are all saved is checked like a short one.
        if self.long.front().is_some_and(LongWrite::is_complete)
            && let Some(LongWrite { write, value_id, .. }) = self.long.pop_front()
        {
            self.check(engine, write, Some(value_id));
        }
        if let Some(LongWrite { write, value_id, saved }) = self.long.front() {
            self.next.add_chunks(engine, write, *value_id, *saved);
        }
        if self.next.is_empty() {
            return None;
        }
        let mut round = std::mem::replace(&mut self.next, std::mem::take(&mut self.spare));
        round.set_expiries(engine.unix_now());
        let keys = round.writes.iter().filter_map(CheckedWrite::changed_key);
        let _busy = self.state.busy_keys.save(keys);
        let versions = std::mem::take(&mut self.next_versions);
        self.saving = Some(SavingRound { versions, _busy });
        self.maintenance.was_due = self.maintenance.is_due();
        self.state.counts.begin_save(Instant::now());
        Some(round)
    }

    /// Applies and answers the writes of a round that was saved, after it began to save the next one, unless the disk needs
    /// maintenance before; refuses them if it was not saved.
    fn conclude(&mut self, engine: &Arc<Engine>, saved: SavedRound) {
        let SavedRound { mut round, result, took } = saved;
        let error = match result {
            Ok(()) => {
                self.count(engine, round.writes.len(), took, Ok(()));
                if let (Some(long), Some(last)) = (self.long.front_mut(), round.chunks.last()) {
                    long.saved = last.end;
                }
                let needs_maintenance = self.needs_maintenance(false);
                self.applying = self.saving.take();
                if !needs_maintenance {
                    self.begin_next(engine);
                }
                // All answers are queued before any thread is woken.
                let writes = round.take_writes();
                Wakeup::wake_all(writes.into_iter().filter_map(|write| write.apply(engine)));
                (self.applying, self.spare) = (None, round);
                if needs_maintenance {
                    self.maintain(engine);
                    self.check_files();
                }
                return;
            }
            Err(error) => error,
        };
        let deletes_more = round.writes.iter().any(CheckedWrite::deletes)
            && (round.writes.len() > 1 || !round.chunks.is_empty());
        let is_full = match error.kind() {
            kv_disk::ErrorKind::Damaged => self.save_one_by_one(engine, &mut round),
            // Deletions are what a full disk needs.
            kv_disk::ErrorKind::Full if deletes_more => self.save_one_by_one(engine, &mut round),
            _ => {
                self.count(engine, round.writes.len(), took, Err(&error));
                let writes = std::mem::take(&mut round.writes);
                self.refuse_all(writes, !round.chunks.is_empty(), &error)
            }
        };
        round.take_writes();
        (self.saving, self.spare) = (None, round);
        if self.needs_maintenance(is_full) {
            self.maintain(engine);
        }
        self.check_files();
        // What was checked as if this round had succeeded.
        self.next_versions.clear();
        for CheckedWrite { write, .. } in self.next.take_writes() {
            self.check(engine, write, None);
        }
    }

    /// Saves each write by itself: some keys are in a damaged part of the index, or some writes have no
    /// space, and the others should be saved. Returns whether the disk is full.
    fn save_one_by_one(&mut self, engine: &Arc<Engine>, round: &mut Round) -> bool {
        let (mut is_full, mut refused) = (false, HashMap::new());
        for checked in std::mem::take(&mut round.writes) {
            // A write that was checked against a refused one is refused too.
            if let Some(status) = refused.get(&checked.write.key) {
                self.refuse(checked, *status);
                continue;
            }
            // What stores a value has no space either.
            if is_full && !checked.deletes() && checked.changed_key().is_some() {
                refused.insert(checked.write.key.clone(), Status::DiskFull);
                self.refuse(checked, Status::DiskFull);
                continue;
            }
            let (started, change) = (Instant::now(), round.change(&checked));
            self.state.counts.begin_save(started);
            let saved = change.map_or(Ok(()), |change| self.saver.disk().save(&[change]));
            match saved {
                Ok(()) => {
                    self.count(engine, 1, started.elapsed(), Ok(()));
                    Wakeup::wake_all(checked.apply(engine));
                }
                Err(error) if error.kind() == kv_disk::ErrorKind::Damaged => {
                    tracing::error!(%error, "write refused");
                    self.state.counts.end_save();
                    self.state.counts.damaged.fetch_add(1, Relaxed);
                    refused.insert(checked.write.key.clone(), Status::Damaged);
                    self.refuse(checked, Status::Damaged);
                }
                Err(error) => {
                    self.count(engine, 1, started.elapsed(), Err(&error));
                    refused.insert(checked.write.key.clone(), refusal(&error));
                    is_full |= self.refuse_all(vec![checked], false, &error);
                }
            }
        }
        let Some(last) = round.chunks.last() else { return is_full };
        let started = Instant::now();
        self.state.counts.begin_save(started);
        let saved = self.saver.disk().save(&round.chunk_changes().collect::<Vec<_>>());
        self.count(engine, 0, started.elapsed(), saved.as_ref().copied());
        match (saved, self.long.front_mut()) {
            (Ok(()), Some(long)) => long.saved = last.end,
            (Ok(()), None) => {}
            (Err(error), _) => is_full |= self.refuse_all(Vec::new(), true, &error),
        }
        is_full
    }

    /// Counts a save, and reports when the disk begins or ceases to fail.
    fn count(
        &self,
        engine: &Engine,
        writes: usize,
        took: Duration,
        saved: Result<(), &kv_disk::Error>,
    ) {
        let counts = &self.state.counts;
        if counts.saved(writes as u64, took, saved.is_ok(), engine.unix_now()) {
            match saved {
                Ok(()) => tracing::info!("writes to disk succeed again"),
                Err(error) => tracing::error!(%error, "cannot write to disk, refusing writes"),
            }
        }
    }

    /// Refuses writes that could not be saved, and the first long value if its chunks were among them; returns whether the disk is
    /// full.
    fn refuse_all(
        &mut self,
        writes: Vec<CheckedWrite>,
        with_chunks: bool,
        error: &kv_disk::Error,
    ) -> bool {
        let status = refusal(error);
        writes.into_iter().for_each(|checked| self.refuse(checked, status));
        if with_chunks && let Some(LongWrite { write, value_id, .. }) = self.long.pop_front() {
            self.discard(Some(value_id));
            Wakeup::wake_all((write.done)(Answer::new(status)));
        }
        // Do not retry immediately if the disk fails immediately.
        std::thread::sleep(FAILURE_PAUSE);
        status == Status::DiskFull
    }

    /// Refuses a write that could not be saved, or that depends on one.
    fn refuse(&mut self, CheckedWrite { write, decision }: CheckedWrite, status: Status) {
        if let Decision::Put { location: ValueLocation::Chunks { value_id }, .. } = decision {
            self.discard(Some(value_id));
        }
        Wakeup::wake_all((write.done)(Answer::new(status)));
    }

    /// Checks the condition of a write, given the writes before it, and adds it to the next round.
    fn check(&mut self, engine: &Engine, write: Write, value_id: Option<u64>) {
        let decision = match self.current(engine, &write.key) {
            Ok(current) => self.next.decide(engine, &write, value_id, current),
            Err(error) => {
                tracing::error!(%error, "write refused");
                Decision::Answer(Answer::new(refusal(&error)))
            }
        };
        if let Decision::Answer(_) = decision {
            self.discard(value_id);
        }
        let checked = CheckedWrite { write, decision };
        if let Some(version) = checked.changed_version() {
            self.next_versions.insert(checked.write.key.clone(), version);
        }
        self.next.writes.push(checked);
    }

    fn discard(&mut self, value_id: Option<u64>) {
        if let Some(value_id) = value_id {
            self.saver.disk().discard_chunks(value_id);
        }
    }

    /// The version of a key: after the rounds that are not applied yet, in memory, or else on the disk.
    fn current(&mut self, engine: &Engine, key: &[u8]) -> Result<Option<u64>, kv_disk::Error> {
        let rounds = [&self.saving, &self.applying].into_iter().flatten();
        let mut versions =
            std::iter::once(&self.next_versions).chain(rounds.map(|round| &round.versions));
        if let Some(version) = versions.find_map(|versions| versions.get(key)) {
            return Ok(*version);
        }
        let in_memory = Key::new(key).ok().and_then(|key| engine.index.stat(key, engine.now()));
        if let Some(metadata) = in_memory {
            return Ok(Some(metadata.version));
        }
        let on_disk = self.reader.stat(key)?;
        let live = on_disk.and_then(|metadata| engine.metadata_of(&metadata));
        Ok(live.map(|metadata| metadata.version))
    }

    /// Whether the disk is to be maintained after a round: a busy one needs it too, above all when it is full.
    fn needs_maintenance(&mut self, is_full: bool) -> bool {
        let maintenance = &mut self.maintenance;
        maintenance.due = Some(Instant::now() + MAINTENANCE_DELAY);
        is_full || maintenance.was_due || maintenance.last.elapsed() >= MAINTENANCE_INTERVAL
    }

    /// Notices a directory that was removed although nothing is written.
    fn check_files(&mut self) {
        if self.maintenance.files_checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.maintenance.files_checked = Instant::now();
        let checked = self.saver.disk().check_files();
        if self.state.counts.set_removed(checked.is_err()) {
            match checked {
                Ok(()) => tracing::info!("the data files can be used again"),
                Err(error) => tracing::error!(%error, "the data files cannot be used"),
            }
        }
    }

    /// Removes expired values and unused chunks from the disk, and plans when to do so again.
    fn maintain(&mut self, engine: &Engine) {
        let pause = self.saver.disk().clean_up(engine.unix_now()).unwrap_or_else(|error| {
            tracing::warn!(%error, "disk maintenance failed");
            Some(MAINTENANCE_RETRY)
        });
        self.maintenance.last = Instant::now();
        self.maintenance.due = pause.map(|pause| self.maintenance.last + pause);
    }

    /// Answers all pending writes as failed: the engine was dropped.
    fn abort(&mut self) {
        let saved = self.saving.take().map(|_| self.saver.wait());
        let rounds =
            saved.map(|saved| saved.round).into_iter().chain([std::mem::take(&mut self.next)]);
        let writes = rounds.flat_map(|round| round.writes).map(|checked| checked.write);
        for write in writes.chain(self.long.drain(..).map(|long| long.write)) {
            Wakeup::wake_all((write.done)(Answer::new(Status::DiskFailed)));
        }
    }

    /// Begins to save what was added, or else waits for the round that is being saved.
    #[cfg(test)]
    pub(super) fn turn(&mut self, engine: &Arc<Engine>) {
        match self.saving {
            None => self.begin_next(engine),
            Some(_) => {
                let saved = self.saver.wait();
                self.conclude(engine, saved);
            }
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

impl LongWrite {
    fn is_complete(&self) -> bool {
        matches!(&self.write.kind, WriteKind::Put { reserved, .. } if reserved.reservation().length() == self.saved)
    }
}

/// The bytes of a round without the chunks of a long value; each write counts for this many in addition to its value.
const MAX_ROUND_BYTES: usize = 8 << 20;
const WRITE_BYTES: usize = 64;
/// How many commands are taken before the end of a save is looked for.
const MAX_COMMANDS: usize = 64;
/// How long to wait after a write before disk maintenance, and after maintenance failed.
const MAINTENANCE_DELAY: Duration = Duration::from_millis(200);
const MAINTENANCE_RETRY: Duration = Duration::from_secs(10);
/// How long maintenance may be put off while there are writes.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the files are checked, also while nothing is written.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait after a failed save.
const FAILURE_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 10 });
