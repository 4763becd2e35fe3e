//! The journal against a simple model: random writes, reads, evictions, faults of the disk and crashes, thousands of
//! times over, with writes in the middle of reads. What was acknowledged is never lost, nothing older is read after it, and
//! no value is torn.
//!
//! Log writer and loader are called as their threads call them, in one thread, so that every run can be run again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kv_disk::{
    Body, Change, DiskReader, DiskWriter, Error, Facts, Listing, PIECE_BYTES, RowInfo, Sink,
};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::WhenFull;

use super::log_writer::LogWriter;
use super::{JournalState, Loaded, Write, WriteKind, loader};
use crate::engine::{Engine, Settings, Staged};

/// What is on the disk. A crash leaves this.
#[derive(Default, Clone)]
struct Paper {
    /// What is known of each key, and its bytes, or whose pieces they are.
    rows: BTreeMap<Vec<u8>, Stored>,
    pieces: HashMap<(u64, u32), Vec<u8>>,
}

type Stored = (Facts, Result<Vec<u8>, u64>);

#[derive(Default)]
struct State {
    paper: Paper,
    runs: u64,
    /// How the next saves go: whether they fail, and whether what failed is on the disk all the same.
    faults: Vec<(kv_disk::Kind, bool)>,
    /// What to do in the middle of the next read.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

impl Paper {
    fn apply(&mut self, change: &Change<'_>) {
        match *change {
            Change::Put { key, version, expires, length, body } => {
                let facts = Facts { version, expires, length };
                let body = match body {
                    Body::Inline(bytes) => Ok(bytes.to_vec()),
                    Body::Pieces(owner) => Err(owner),
                };
                self.rows.insert(key.to_vec(), (facts, body));
            }
            Change::Delete { key } => _ = self.rows.remove(key),
            Change::Piece { owner, number, bytes } => {
                assert!(bytes.len() <= PIECE_BYTES);
                self.pieces.insert((owner, number), bytes.to_vec());
            }
        }
    }

    fn value(&self, key: &[u8]) -> Option<(Facts, Vec<u8>)> {
        let (facts, body) = self.rows.get(key)?;
        let bytes = match body {
            Ok(bytes) => bytes.clone(),
            Err(owner) => (0..)
                .map_while(|number| self.pieces.get(&(*owner, number)))
                .flatten()
                .copied()
                .collect(),
        };
        assert_eq!(bytes.len() as u64, facts.length, "all pieces are there before their value is");
        Some((*facts, bytes))
    }
}

impl DiskWriter for Fake {
    fn row_info(&mut self, key: &[u8]) -> Result<Option<RowInfo>, Error> {
        let state = self.0.lock().unwrap();
        let known = state.paper.rows.get(key);
        Ok(known.map(|(facts, body)| RowInfo { facts: *facts, in_pieces: body.is_err() }))
    }

    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap();
        match state.faults.pop() {
            None => changes.iter().for_each(|change| state.paper.apply(change)),
            Some((kind, there)) => {
                if there {
                    changes.iter().for_each(|change| state.paper.apply(change));
                }
                return Err(Error::injected(kind));
            }
        }
        Ok(())
    }

    fn discard_pieces(&mut self, owner: u64) {
        let paper = &mut self.0.lock().unwrap().paper;
        // Unless the save that failed was done all the same.
        if !paper.rows.values().any(|(_, body)| *body == Err(owner)) {
            paper.pieces.retain(|(known, _), _| *known != owner);
        }
    }

    fn clean_up(&mut self, _: u64) -> Result<Option<Duration>, Error> {
        Ok(None)
    }
}

impl DiskReader for Fake {
    fn read(&mut self, key: &[u8], receive_buffer: &mut dyn Sink) -> Result<Option<bool>, Error> {
        let mut state = self.0.lock().unwrap();
        let (value, meanwhile) = (state.paper.value(key), state.meanwhile.take());
        drop(state);
        let taken = value.map(|(facts, bytes)| {
            let wanted = receive_buffer.begin(&facts);
            if wanted {
                receive_buffer.bytes(0, &bytes);
            }
            wanted
        });
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Ok(taken)
    }

    fn list(&mut self, _: &[u8], _: &[u8], _: (usize, usize), _: u64) -> Result<Listing, Error> {
        Ok(Vec::new())
    }
}

/// What the model knows of a key: its last acknowledged value, and what may be there instead since a fault.
#[derive(Default, Clone, Debug)]
struct Truth {
    value: Option<u64>,
    perhaps: Vec<Option<u64>>,
}

struct World {
    chance: u64,
    engine: Arc<Engine>,
    state: Arc<JournalState>,
    log_writer: Arc<Mutex<LogWriter>>,
    disk: Fake,
    truth: HashMap<u8, Truth>,
    stamp: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = Fake::default();
        let (engine, state, log_writer) = begin(&disk);
        let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        World { chance, engine, state, log_writer, disk, truth: HashMap::new(), stamp: 0 }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % most
    }

    /// Some writes that are saved together, and what the model makes of their answers.
    fn write(&mut self) {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mut writes = Vec::new();
        for _ in 0..=self.below(5) {
            let (key, deletes) = (self.below(KEYS) as u8, self.below(5) == 0);
            self.stamp += 1;
            let stamp = (!deletes).then_some(self.stamp);
            let condition = match self.below(6) {
                0 => Condition::IfAbsent,
                1 => Condition::IfVersion(self.below(1000)),
                _ => Condition::Always,
            };
            let what = match deletes {
                true => WriteKind::Delete,
                false => {
                    let length = if self.below(40) == 0 { PIECE_BYTES + 1000 } else { 3000 };
                    let Some(staged) = stage(&self.engine, &value(key, self.stamp, length)) else {
                        continue;
                    };
                    WriteKind::Put { staged, ttl: None }
                }
            };
            let told = answers.clone();
            let done = Box::new(move |answer| {
                told.lock().unwrap().push((key, stamp, answer));
                None
            });
            writes.push(Write { key: Box::new([key]), what, condition, done });
        }
        let mut log_writer = self.log_writer.lock().unwrap();
        log_writer.round(&self.engine, &self.state, writes);
        while !log_writer.is_done() {
            log_writer.round(&self.engine, &self.state, Vec::new());
        }
        drop(log_writer);
        for (key, stamp, answer) in std::mem::take(&mut *answers.lock().unwrap()) {
            self.learn(key, stamp, &answer);
        }
    }

    fn learn(&mut self, key: u8, stamp: Option<u64>, answer: &Answer) {
        let truth = self.truth.entry(key).or_default();
        match answer.status {
            Status::Ok => *truth = Truth { value: stamp, perhaps: Vec::new() },
            Status::NotFound => *truth = Truth::default(),
            // A crash decides, until the next write does.
            Status::DiskFailed => truth.perhaps.push(stamp),
            Status::DiskFull | Status::Exists | Status::Absent | Status::OtherVersion => {}
            other => panic!("{other:?}"),
        }
    }

    /// A key is read, from memory or the disk; now and then something is written in the middle of that.
    fn read(&mut self) {
        let key = self.below(KEYS) as u8;
        if self.below(4) == 0 {
            let (engine, state, log_writer) =
                (self.engine.clone(), self.state.clone(), self.log_writer.clone());
            self.stamp += 1;
            let stamp = self.stamp;
            if let Some(staged) = stage(&engine, &value(key, stamp, 3000)) {
                let told = Arc::new(Mutex::new(None));
                let noted = told.clone();
                let done = Box::new(move |answer| {
                    *noted.lock().unwrap() = Some(answer);
                    None
                });
                let what = WriteKind::Put { staged, ttl: None };
                let condition = Condition::Always;
                let write = Write { key: Box::new([key]), what, condition, done };
                let meanwhile =
                    move || _ = log_writer.lock().unwrap().round(&engine, &state, vec![write]);
                self.disk.0.lock().unwrap().meanwhile = Some(Box::new(meanwhile));
                self.check(key);
                self.disk.0.lock().unwrap().meanwhile = None;
                let answer = *told.lock().unwrap();
                if let Some(answer) = answer {
                    self.learn(key, Some(stamp), &answer);
                }
                return self.check(key);
            }
        }
        self.check(key);
    }

    fn check(&mut self, key: u8) {
        let held = match self
            .engine
            .store
            .pin(kv_store::Key::new(&[key]).unwrap(), self.engine.now())
        {
            Some(pinned) => Some(Arc::new(crate::engine::Held::new(self.engine.clone(), pinned))),
            None => match loader::value(&self.engine, &self.state, &mut self.disk, &[key]).unwrap()
            {
                Loaded::Value(held) => held,
                Loaded::Failed(Status::Full) => return,
                _ => panic!("neither a value nor none"),
            },
        };
        let seen = held.map(|held| {
            let pinned = held.value();
            let mut bytes = vec![0; pinned.facts.length as usize];
            self.engine.copy_out(&pinned.ranges, 0, &mut bytes);
            let stamp = u64::from_le_bytes(bytes[1..9].try_into().unwrap());
            let whole = value(key, stamp, bytes.len());
            assert!(
                bytes == whole,
                "{key}: torn, {} bytes that begin so: {:?}",
                bytes.len(),
                &bytes[..12]
            );
            stamp
        });
        let truth = self.truth.entry(key).or_default();
        let during = self.stamp;
        let fits = seen == truth.value || seen == Some(during) || truth.perhaps.contains(&seen);
        assert!(fits, "{key}: {seen:?} was read, and {truth:?} is true");
    }

    /// The process dies: memory is gone, the disk is not.
    fn crash(&mut self) {
        (self.engine, self.state, self.log_writer) = begin(&self.disk);
        for key in 0..KEYS as u8 {
            self.check(key);
            let there = self.disk.0.lock().unwrap().paper.value(&[key]);
            let there = there.map(|(_, bytes)| u64::from_le_bytes(bytes[1..9].try_into().unwrap()));
            self.truth.insert(key, Truth { value: there, perhaps: Vec::new() });
        }
    }
}

fn begin(disk: &Fake) -> (Arc<Engine>, Arc<JournalState>, Arc<Mutex<LogWriter>>) {
    let settings = Settings {
        // So little that values are evicted all the time.
        memory: 1 << 20,
        pages: fabric::Pages::Plain,
        when_full: WhenFull::Evict,
        max_value: None,
        idle: Duration::from_secs(60),
        max_in_flight: None,
        data_dir: None,
    };
    let log_writer = Arc::new(Mutex::new(LogWriter::new(Box::new(disk.clone()))));
    let run = {
        let mut state = disk.0.lock().unwrap();
        state.runs += 1;
        state.runs
    };
    (
        Engine::of_run(&settings, access::Access::open(), None, run).unwrap(),
        Arc::default(),
        log_writer,
    )
}

fn value(key: u8, stamp: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![key];
    bytes.extend(stamp.to_le_bytes());
    // One byte of each value's own, again and again: a piece of another does not fit.
    bytes.resize(length, (stamp.wrapping_mul(31) ^ u64::from(key)) as u8);
    bytes
}

fn stage(engine: &Arc<Engine>, bytes: &[u8]) -> Option<Staged> {
    let room = engine.reserve(bytes.len() as u64).ok()?;
    engine.fill(&room, 0, bytes);
    Some(Staged::new(engine.clone(), room, None))
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..60 {
        match world.below(20) {
            0..9 => world.write(),
            9..18 => world.read(),
            18 => {
                let there = world.below(2) == 0;
                let (full, failed) = (kv_disk::Kind::Full, kv_disk::Kind::Failed);
                let fault = if world.below(2) == 0 { (full, false) } else { (failed, there) };
                world.disk.0.lock().unwrap().faults.push(fault);
            }
            _ => world.crash(),
        }
    }
    world.crash();
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_old_is_read() {
    let seeds = std::env::var("WIRELANE_TEST_SEEDS").ok();
    let seeds = seeds.map_or(1000, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let failed = std::panic::catch_unwind(|| run(seed)).is_err();
        assert!(!failed, "seed {seed}; the reason is above");
    }
}

const KEYS: u64 = 12;
