//! The log writer: saves writes on the disk, then applies them in memory, then answers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kv_disk::{Body, Change, DiskWriter, PIECE_BYTES};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Key;

use super::{JournalState, Order, Write, WriteKind};
use crate::engine::Engine;
use crate::engine::outcome::unmet;
use crate::wakeup::Wakeup;

/// Writes until nobody has anything to write any more.
pub(super) fn run(
    engine: &Weak<Engine>,
    state: &JournalState,
    orders: &Receiver<Order>,
    disk: Box<dyn DiskWriter>,
) {
    let mut log_writer = LogWriter::new(disk);
    let (mut pause, mut stops, mut maintained) = (Some(Duration::ZERO), false, Instant::now());
    while !stops || !log_writer.is_done() {
        // A long value goes on in any case; else it is time to sleep until something comes.
        let first = match (log_writer.is_done(), pause) {
            (false, _) => orders.try_recv().map_err(|error| error == TryRecvError::Disconnected),
            (true, Some(pause)) => {
                orders.recv_timeout(pause).map_err(|error| error == RecvTimeoutError::Disconnected)
            }
            (true, None) => orders.recv().map_err(|_| true),
        };
        stops |= matches!(first, Err(true));
        let Some(engine) = engine.upgrade() else { return log_writer.give_up() };
        let (mut taken, mut room, mut next) = (Vec::new(), TOGETHER, first.ok());
        while let Some(order) = next.take() {
            match order {
                Order::Stop => stops = true,
                Order::Write(write) => {
                    room = room.saturating_sub(write.bytes() + 64);
                    taken.push(write);
                    next = if room > 0 { orders.try_recv().ok() } else { None };
                }
            }
        }
        match taken.is_empty() && log_writer.is_done() {
            true => {
                pause = log_writer.maintain(&engine);
                maintained = Instant::now();
            }
            false => {
                state.counts.waiting(-(taken.len() as i64));
                let full = log_writer.round(&engine, state, taken);
                // A disk that is written all the time needs it too, most of all where nothing fits any more.
                let behind = full || pause == Some(Duration::ZERO) || maintained.elapsed() >= EVERY;
                pause = if behind { log_writer.maintain(&engine) } else { Some(SOON) };
                maintained = if behind { Instant::now() } else { maintained };
            }
        }
    }
}

pub(super) struct LogWriter {
    disk: Box<dyn DiskWriter>,
    /// Values that are written in pieces, between others.
    long: VecDeque<Long>,
    /// The bytes of one round.
    bytes: Vec<u8>,
}

struct Long {
    write: Write,
    owner: u64,
    /// How many bytes are saved.
    saved: u64,
}

/// What is saved together, and how long that took.
struct Round<'p> {
    checked: Vec<Checked>,
    pieces: &'p [PieceHere],
    took: Duration,
}

/// A write that was checked, and waits to be durable.
struct Checked {
    write: Write,
    decision: Decision,
}

enum Decision {
    /// It changes nothing.
    Answer(Answer),
    Put {
        version: u64,
        replaced: bool,
        place: Place,
    },
    Delete {
        version: u64,
    },
}

/// Where the bytes of a value are: in the round's, or in pieces that are saved.
#[derive(Clone, Copy)]
enum Place {
    Here { from: usize, to: usize },
    Pieces { owner: u64 },
}

impl LogWriter {
    pub(super) fn new(disk: Box<dyn DiskWriter>) -> Self {
        LogWriter { disk, long: VecDeque::new(), bytes: Vec::new() }
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_done(&self) -> bool {
        self.long.is_empty()
    }

    /// Saves what has come, and a part of the next long value; returns whether the disk is full.
    pub(super) fn round(
        &mut self,
        engine: &Arc<Engine>,
        state: &JournalState,
        taken: Vec<Write>,
    ) -> bool {
        self.bytes.clear();
        let mut checked = Vec::with_capacity(taken.len());
        let mut written = HashMap::new();
        for write in taken {
            match write.what {
                WriteKind::Put { ref staged, .. }
                    if staged.room().length() > PIECE_BYTES as u64 =>
                {
                    let owner = engine.store.allocate_version();
                    self.long.push_back(Long { write, owner, saved: 0 });
                }
                _ => checked.push(self.check(engine, write, None, &mut written)),
            }
        }
        // One whose pieces are all there is checked like a short one.
        if self.long.front().is_some_and(Long::is_whole)
            && let Some(Long { write, owner, .. }) = self.long.pop_front()
        {
            checked.push(self.check(engine, write, Some(owner), &mut written));
        }
        let pieces = self.copy_pieces(engine);
        // Until it is so in memory too, or nowhere.
        let _saving = state.loading.save(checked.iter().filter_map(Checked::changes));
        let begun = Instant::now();
        let saved = self.save(engine, &checked, &pieces);
        match saved {
            Err(error) if error.kind() == kv_disk::Kind::Damaged => {
                self.save_apart(engine, state, checked, &pieces)
            }
            saved => {
                let round = Round { checked, pieces: &pieces, took: begun.elapsed() };
                self.conclude(engine, state, round, saved)
            }
        }
    }

    fn save(
        &mut self,
        engine: &Engine,
        checked: &[Checked],
        pieces: &[PieceHere],
    ) -> Result<(), kv_disk::Error> {
        let mut changes = Vec::with_capacity(checked.len() + pieces.len());
        changes.extend(checked.iter().filter_map(|checked| checked.change(engine, &self.bytes)));
        changes.extend(pieces.iter().map(|piece| piece.change(&self.bytes)));
        if changes.is_empty() { Ok(()) } else { self.disk.save(&changes) }
    }

    /// Some of a round's keys lie where the disk is damaged: one write after the other, so that the rest is saved.
    fn save_apart(
        &mut self,
        engine: &Arc<Engine>,
        state: &JournalState,
        checked: Vec<Checked>,
        pieces: &[PieceHere],
    ) -> bool {
        let (mut full, mut refused) = (false, HashSet::new());
        for checked in checked {
            let begun = Instant::now();
            // What was checked against a write that was not done is not done either.
            if refused.contains(&checked.write.key) {
                self.refuse(checked, Status::Damaged);
                continue;
            }
            match self.save(engine, std::slice::from_ref(&checked), &[]) {
                Err(error) if error.kind() == kv_disk::Kind::Damaged => {
                    tracing::error!(%error, "a write is refused");
                    state.counts.damaged.fetch_add(1, Relaxed);
                    refused.insert(checked.write.key.clone());
                    self.refuse(checked, Status::Damaged);
                }
                saved => {
                    if saved.is_err() {
                        refused.insert(checked.write.key.clone());
                    }
                    let round =
                        Round { checked: vec![checked], pieces: &[], took: begun.elapsed() };
                    full |= self.conclude(engine, state, round, saved);
                }
            }
        }
        let begun = Instant::now();
        let saved = self.save(engine, &[], pieces);
        let round = Round { checked: Vec::new(), pieces, took: begun.elapsed() };
        full | self.conclude(engine, state, round, saved)
    }

    /// What was saved is so for everybody, what was not is refused; returns whether the disk is full.
    fn conclude(
        &mut self,
        engine: &Arc<Engine>,
        state: &JournalState,
        Round { checked, pieces, took }: Round<'_>,
        saved: Result<(), kv_disk::Error>,
    ) -> bool {
        let changed = state.counts.saved(checked.len() as u64, took, saved.is_ok());
        let Err(error) = saved else {
            if changed {
                tracing::info!("the disk takes writes again");
            }
            if let (Some(long), Some(last)) = (self.long.front_mut(), pieces.last()) {
                long.saved = last.end;
            }
            // All are told before anybody is woken.
            Wakeup::wake_all(checked.into_iter().filter_map(|checked| checked.apply(engine)));
            return false;
        };
        if changed {
            tracing::error!(%error, "writes are refused");
        }
        let status = refusal(&error);
        checked.into_iter().for_each(|checked| self.refuse(checked, status));
        if !pieces.is_empty()
            && let Some(Long { write, owner, .. }) = self.long.pop_front()
        {
            self.disk.discard_pieces(owner);
            Wakeup::wake_all((write.done)(Answer::new(status)));
        }
        // A disk that fails at once should not be asked again at once.
        std::thread::sleep(BREATH);
        status == Status::DiskFull
    }

    /// It could not be saved, or depends on something that could not.
    fn refuse(&mut self, Checked { write, decision }: Checked, status: Status) {
        if let Decision::Put { place: Place::Pieces { owner }, .. } = decision {
            self.disk.discard_pieces(owner);
        }
        Wakeup::wake_all((write.done)(Answer::new(status)));
    }

    /// Whether a write is to be done, as things stand after those before it.
    fn check(
        &mut self,
        engine: &Engine,
        write: Write,
        owner: Option<u64>,
        written: &mut HashMap<Box<[u8]>, Option<u64>>,
    ) -> Checked {
        let current = match written.get(&write.key) {
            Some(version) => Ok(*version),
            None => self.current(engine, &write.key),
        };
        let current = match current {
            Ok(current) => current,
            Err(error) => {
                tracing::error!(%error, "a write is refused");
                self.forget(owner);
                return Checked { write, decision: Decision::Answer(Answer::new(refusal(&error))) };
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
            self.forget(owner);
            return Checked { write, decision: Decision::Answer(unmet(&refused)) };
        }
        let decision = match (&write.what, current) {
            (WriteKind::Delete, None) => Decision::Answer(Answer::new(Status::NotFound)),
            (WriteKind::Delete, Some(version)) => Decision::Delete { version },
            (WriteKind::Put { staged, .. }, _) => {
                let place = match owner {
                    Some(owner) => Place::Pieces { owner },
                    None => {
                        let (from, length) = (self.bytes.len(), staged.room().length() as usize);
                        self.bytes.resize(from + length, 0);
                        let ranges = staged.room().ranges();
                        engine.copy_out(&ranges, 0, &mut self.bytes[from..]);
                        Place::Here { from, to: from + length }
                    }
                };
                let version = engine.store.allocate_version();
                Decision::Put { version, replaced: current.is_some(), place }
            }
        };
        match decision {
            Decision::Put { version, .. } => _ = written.insert(write.key.clone(), Some(version)),
            Decision::Delete { .. } => _ = written.insert(write.key.clone(), None),
            Decision::Answer(_) => {}
        }
        Checked { write, decision }
    }

    fn forget(&mut self, owner: Option<u64>) {
        if let Some(owner) = owner {
            self.disk.discard_pieces(owner);
        }
    }

    /// The version that a key has: in memory, or else on the disk.
    fn current(&mut self, engine: &Engine, key: &[u8]) -> Result<Option<u64>, kv_disk::Error> {
        let hot = Key::new(key).ok().and_then(|key| engine.store.stat(key, engine.now()));
        if let Some(facts) = hot {
            return Ok(Some(facts.version));
        }
        let known = self.disk.row_info(key)?;
        let live = known.and_then(|known| engine.facts_of(&known.facts));
        Ok(live.map(|facts| facts.version))
    }

    /// The next pieces of the first long value.
    fn copy_pieces(&mut self, engine: &Engine) -> Vec<PieceHere> {
        let Some(Long { write, owner, saved }) = self.long.front() else { return Vec::new() };
        let WriteKind::Put { staged, .. } = &write.what else { return Vec::new() };
        let (length, ranges) = (staged.room().length(), staged.room().ranges());
        let mut pieces = Vec::new();
        let mut offset = *saved;
        while offset < length && pieces.len() < PIECES {
            let end = length.min(offset + PIECE_BYTES as u64);
            let from = self.bytes.len();
            self.bytes.resize(from + (end - offset) as usize, 0);
            engine.copy_out(&ranges, offset, &mut self.bytes[from..]);
            let number = (offset / PIECE_BYTES as u64) as u32;
            pieces.push(PieceHere { owner: *owner, number, from, to: self.bytes.len(), end });
            offset = end;
        }
        pieces
    }

    /// Removes from the disk what has expired and what no value needs; returns when to do so again.
    fn maintain(&mut self, engine: &Engine) -> Option<Duration> {
        match self.disk.clean_up(engine.unix_now()) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, "disk maintenance failed");
                Some(LATER)
            }
        }
    }

    /// Nobody is left who could be told otherwise.
    fn give_up(&mut self) {
        for Long { write, .. } in self.long.drain(..) {
            Wakeup::wake_all((write.done)(Answer::new(Status::DiskFailed)));
        }
    }
}

fn refusal(error: &kv_disk::Error) -> Status {
    match error.kind() {
        kv_disk::Kind::Full => Status::DiskFull,
        kv_disk::Kind::Damaged => Status::Damaged,
        _ => Status::DiskFailed,
    }
}

impl Write {
    fn bytes(&self) -> usize {
        match &self.what {
            WriteKind::Put { staged, .. } if staged.room().length() <= PIECE_BYTES as u64 => {
                staged.room().length() as usize
            }
            _ => 0,
        }
    }
}

impl Long {
    fn is_whole(&self) -> bool {
        matches!(&self.write.what, WriteKind::Put { staged, .. } if staged.room().length() == self.saved)
    }
}

/// A piece that is about to be saved, among the round's bytes.
struct PieceHere {
    owner: u64,
    number: u32,
    from: usize,
    to: usize,
    /// Where it ends in the value.
    end: u64,
}

impl PieceHere {
    fn change<'c>(&self, bytes: &'c [u8]) -> Change<'c> {
        let PieceHere { owner, number, from, to, .. } = *self;
        Change::Piece { owner, number, bytes: &bytes[from..to] }
    }
}

impl Checked {
    fn change<'c>(&'c self, engine: &Engine, bytes: &'c [u8]) -> Option<Change<'c>> {
        let key = &self.write.key[..];
        match (&self.decision, &self.write.what) {
            (Decision::Put { version, place, .. }, WriteKind::Put { staged, ttl }) => {
                let body = match *place {
                    Place::Here { from, to } => Body::Inline(&bytes[from..to]),
                    Place::Pieces { owner } => Body::Pieces(owner),
                };
                let expires = ttl.map(|ttl| engine.unix_now().saturating_add(ttl).min(LAST));
                let (version, length) = (*version, staged.room().length());
                Some(Change::Put { key, version, expires, length, body })
            }
            (Decision::Delete { .. }, _) => Some(Change::Delete { key }),
            _ => None,
        }
    }

    /// The key that it changes, if it does.
    fn changes(&self) -> Option<&[u8]> {
        (!matches!(self.decision, Decision::Answer(_))).then_some(&self.write.key)
    }

    /// It is durable: now it is so for everybody.
    fn apply(self, engine: &Arc<Engine>) -> Option<Wakeup> {
        let Checked { write: Write { key: name, what, done, .. }, decision } = self;
        let Ok(key) = Key::new(&name) else { return done(Answer::new(Status::Denied)) };
        let now = engine.now();
        let answer = match (decision, what) {
            (Decision::Put { version, replaced, .. }, WriteKind::Put { staged, ttl }) => {
                let (length, expires) = (staged.room().length(), engine.expiry(ttl, now));
                // An index that is full does not have it: then it is fetched when it is asked for.
                let _ = engine.store.commit_version(key, staged.take(), version, expires, now);
                Answer { version, replaced, length, ..Answer::new(Status::Ok) }
            }
            (Decision::Delete { version }, _) => {
                let always = kv_store::Condition::Always;
                let _ = engine.store.delete(key, always, now);
                Answer { version, ..Answer::new(Status::Ok) }
            }
            (Decision::Answer(answer), _) => answer,
            (Decision::Put { .. }, WriteKind::Delete) => Answer::new(Status::Denied),
        };
        done(answer)
    }
}

/// How many bytes are saved together, and how many pieces of a long value with them.
const TOGETHER: usize = 8 << 20;
const PIECES: usize = 16;
/// How long to wait after a write before disk maintenance, and after that failed.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(10);
/// How long maintenance may wait while there is something to write.
const EVERY: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const BREATH: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 10 });
/// A time that a row can hold.
const LAST: u64 = i64::MAX as u64;
