//! Tests the committer and the loaders against a simple model: random writes, reads, evictions, disk faults and crashes,
//! hundreds of times, with writes in the middle of reads. Acknowledged writes are never lost, nothing older is read
//! after them, and no value is torn.
//!
//! Committer and loader are called as by their threads, but in one thread, so that every run is reproducible.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kv_disk::{Body, CHUNK_BYTES, Change, DiskReader, DiskWriter, Error, Listing, Metadata, Sink};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::WhenFull;

use super::committer::Committer;
use super::saver::Saver;
use super::{PersistenceState, ReadResult, Write, WriteKind, loader};
use crate::engine::{Engine, ReservedValue, Settings};

/// The content of the disk, which survives a crash.
#[derive(Default, Clone)]
struct DiskContent {
    /// The metadata of each key, and its bytes or the value_id of its chunks.
    rows: BTreeMap<Vec<u8>, Stored>,
    chunks: HashMap<(u64, u32), Vec<u8>>,
}

type Stored = (Metadata, Result<Vec<u8>, u64>);

#[derive(Default)]
struct State {
    content: DiskContent,
    runs: u64,
    /// Faults of the next saves, and whether the changes reach the disk nevertheless.
    faults: Vec<(kv_disk::ErrorKind, bool)>,
    /// Called in the middle of the next read.
    during_read: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Default)]
struct FakeDisk(Arc<Mutex<State>>);

impl DiskContent {
    fn apply(&mut self, change: &Change<'_>) {
        match *change {
            Change::Put { key, version, expires, length, body, .. } => {
                let metadata = Metadata { version, expires, length };
                let body = match body {
                    Body::Inline(bytes) => Ok(bytes.to_vec()),
                    Body::Chunks(value_id) => Err(value_id),
                };
                self.rows.insert(key.to_vec(), (metadata, body));
            }
            Change::Remove { key, .. } => _ = self.rows.remove(key),
            Change::Chunk { value_id, number, bytes } => {
                assert!(bytes.len() <= CHUNK_BYTES);
                self.chunks.insert((value_id, number), bytes.to_vec());
            }
        }
    }

    fn value(&self, key: &[u8]) -> Option<(Metadata, Vec<u8>)> {
        let (metadata, body) = self.rows.get(key)?;
        let bytes = match body {
            Ok(bytes) => bytes.clone(),
            Err(value_id) => (0..)
                .map_while(|number| self.chunks.get(&(*value_id, number)))
                .flatten()
                .copied()
                .collect(),
        };
        assert_eq!(bytes.len() as u64, metadata.length, "all chunks are saved before their value");
        Some((*metadata, bytes))
    }
}

impl DiskWriter for FakeDisk {
    fn save(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap();
        match state.faults.pop() {
            None => changes.iter().for_each(|change| state.content.apply(change)),
            Some((kind, saved)) => {
                if saved {
                    changes.iter().for_each(|change| state.content.apply(change));
                }
                return Err(Error::injected(kind));
            }
        }
        Ok(())
    }

    fn check_files(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn discard_chunks(&mut self, value_id: u64) {
        let content = &mut self.0.lock().unwrap().content;
        // Unless the failed save reached the disk.
        if !content.rows.values().any(|(_, body)| *body == Err(value_id)) {
            content.chunks.retain(|(known, _), _| *known != value_id);
        }
    }

    fn clean_up(&mut self, _: u64) -> Result<Option<Duration>, Error> {
        Ok(None)
    }
}

impl DiskReader for FakeDisk {
    fn read(&mut self, key: &[u8], sink: &mut dyn Sink) -> Result<Option<bool>, Error> {
        let mut state = self.0.lock().unwrap();
        let (value, during_read) = (state.content.value(key), state.during_read.take());
        drop(state);
        let read = value.map(|(metadata, bytes)| {
            let wanted = sink.begin(&metadata);
            if wanted {
                sink.bytes(0, &bytes);
            }
            wanted
        });
        if let Some(during_read) = during_read {
            during_read();
        }
        Ok(read)
    }

    fn stat(&mut self, key: &[u8]) -> Result<Option<Metadata>, Error> {
        Ok(self.0.lock().unwrap().content.rows.get(key).map(|(metadata, _)| *metadata))
    }

    fn list(&mut self, _: &[u8], _: &[u8], _: (usize, usize), _: u64) -> Result<Listing, Error> {
        Ok(Vec::new())
    }
}

/// The expected value of a key: the last acknowledged one, or, after a fault, one of the possible ones.
#[derive(Default, Clone, Debug)]
struct Expected {
    value: Option<u64>,
    possible: Vec<Option<u64>>,
    /// The version of the value, unless it is unknown.
    version: Option<u64>,
}

struct ModelTest {
    random: u64,
    engine: Arc<Engine>,
    state: Arc<PersistenceState>,
    committer: Arc<Mutex<Committer>>,
    disk: FakeDisk,
    expected: HashMap<u8, Expected>,
    stamp: u64,
}

impl ModelTest {
    fn new(seed: u64) -> Self {
        let disk = FakeDisk::default();
        let (engine, state, committer) = begin(&disk);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        ModelTest { random, engine, state, committer, disk, expected: HashMap::new(), stamp: 0 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    /// Saves some writes, in one round or in several, and updates the model by their answers.
    fn write(&mut self) {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mut writes = Vec::new();
        for _ in 0..=self.below(5) {
            let (key, deletes) = (self.below(KEYS) as u8, self.below(5) == 0);
            self.stamp += 1;
            let stamp = (!deletes).then_some(self.stamp);
            let known = self.expected.get(&key).and_then(|expected| expected.version);
            let condition = match self.below(6) {
                0 => Condition::IfAbsent,
                1 => Condition::IfVersion(known.unwrap_or(1)),
                _ => Condition::Always,
            };
            let kind = match deletes {
                true => WriteKind::Delete,
                false => {
                    let length = if self.below(40) == 0 { CHUNK_BYTES + 1000 } else { 3000 };
                    let Some(reserved) = reserve(&self.engine, &value(key, self.stamp, length))
                    else {
                        continue;
                    };
                    WriteKind::Put { reserved, ttl: None }
                }
            };
            let received = answers.clone();
            let done = Box::new(move |answer| {
                received.lock().unwrap().push((key, stamp, condition, answer));
                None
            });
            writes.push(Write { key: Box::new([key]), kind, condition, done });
        }
        // The rounds overlap: some writes are checked while those before are saved.
        let turns: Vec<bool> = writes.iter().map(|_| self.below(3) == 0).collect();
        let saves_at_once = self.below(2) == 0;
        let mut committer = self.committer.lock().unwrap();
        committer.saver.saves_at_once = saves_at_once;
        for (write, turns) in writes.into_iter().zip(turns) {
            committer.add(&self.engine, write);
            if turns {
                committer.turn(&self.engine);
            }
        }
        while !committer.is_done() {
            committer.turn(&self.engine);
        }
        drop(committer);
        for (key, stamp, condition, answer) in std::mem::take(&mut *answers.lock().unwrap()) {
            self.learn(key, stamp, condition, &answer);
        }
    }

    /// Checks an answer against the model, and updates it: writes are answered in the order in which they were decided.
    fn learn(&mut self, key: u8, stamp: Option<u64>, condition: Condition, answer: &Answer) {
        let expected = self.expected.entry(key).or_default();
        if expected.possible.is_empty() {
            let exists = expected.value.is_some();
            let version = expected.version.filter(|_| exists);
            let fits = match (answer.status, condition) {
                (Status::Ok, Condition::IfAbsent) if stamp.is_some() => !exists,
                (Status::Ok, Condition::IfVersion(wanted)) => version.is_none_or(|at| at == wanted),
                (Status::Ok, _) => stamp.is_some() || exists,
                (Status::Exists, _) => exists && version.is_none_or(|at| at == answer.version),
                (Status::NotFound | Status::Absent, _) => !exists,
                (Status::OtherVersion, Condition::IfVersion(wanted)) => {
                    version.is_none_or(|at| at != wanted)
                }
                _ => true,
            };
            assert!(fits, "{key}: {condition:?} {stamp:?}: {answer:?}, expected {expected:?}");
            if answer.status == Status::Ok && stamp.is_some() {
                assert_eq!(answer.replaced, exists, "{key}: {answer:?}, expected {expected:?}");
            }
        }
        let version = stamp.map(|_| answer.version);
        match answer.status {
            Status::Ok => *expected = Expected { value: stamp, possible: Vec::new(), version },
            Status::NotFound => *expected = Expected::default(),
            // Unknown until a crash or the next write.
            Status::DiskFailed => {
                expected.possible.push(stamp);
                expected.version = None;
            }
            Status::DiskFull
            | Status::Damaged
            | Status::Exists
            | Status::Absent
            | Status::OtherVersion => {}
            other => panic!("{other:?}"),
        }
    }

    /// Reads a key from memory or the disk; sometimes with a write in the middle of the read.
    fn read(&mut self) {
        let key = self.below(KEYS) as u8;
        if self.below(4) == 0 {
            let (engine, committer) = (self.engine.clone(), self.committer.clone());
            self.stamp += 1;
            let stamp = self.stamp;
            if let Some(reserved) = reserve(&engine, &value(key, stamp, 3000)) {
                let answer = Arc::new(Mutex::new(None));
                let received = answer.clone();
                let done = Box::new(move |answer| {
                    *received.lock().unwrap() = Some(answer);
                    None
                });
                let kind = WriteKind::Put { reserved, ttl: None };
                let condition = Condition::Always;
                let write = Write { key: Box::new([key]), kind, condition, done };
                let during_read = move || {
                    let mut committer = committer.lock().unwrap();
                    committer.add(&engine, write);
                    while !committer.is_done() {
                        committer.turn(&engine);
                    }
                };
                self.disk.0.lock().unwrap().during_read = Some(Box::new(during_read));
                self.check(key);
                self.disk.0.lock().unwrap().during_read = None;
                let answer = *answer.lock().unwrap();
                if let Some(answer) = answer {
                    self.learn(key, Some(stamp), Condition::Always, &answer);
                }
                return self.check(key);
            }
        }
        self.check(key);
    }

    fn check(&mut self, key: u8) {
        let value_pin =
            match self.engine.index.pin(kv_store::Key::new(&[key]).unwrap(), self.engine.now()) {
                Some(pinned) => {
                    Some(Arc::new(crate::engine::PinnedValue::new(self.engine.clone(), pinned)))
                }
                None => match loader::value(&self.engine, &self.state, &mut self.disk, &[key])
                    .unwrap()
                {
                    ReadResult::Value(value_pin) => value_pin,
                    ReadResult::Failed(Status::Full) => return,
                    _ => panic!("neither a value nor none"),
                },
            };
        let seen = value_pin.map(|value_pin| {
            let pinned = value_pin.value();
            let mut bytes = vec![0; pinned.metadata.length as usize];
            self.engine.copy_out(&pinned.ranges, 0, &mut bytes);
            let stamp = u64::from_le_bytes(bytes[1..9].try_into().unwrap());
            let expected = value(key, stamp, bytes.len());
            assert!(
                bytes == expected,
                "{key}: torn, {} bytes that start with {:?}",
                bytes.len(),
                &bytes[..12]
            );
            stamp
        });
        let expected = self.expected.entry(key).or_default();
        let during = self.stamp;
        let fits =
            seen == expected.value || seen == Some(during) || expected.possible.contains(&seen);
        assert!(fits, "{key}: read {seen:?}, expected {expected:?}");
    }

    /// Simulates a crash of the process: memory is lost, the disk is not.
    fn crash(&mut self) {
        (self.engine, self.state, self.committer) = begin(&self.disk);
        for key in 0..KEYS as u8 {
            self.check(key);
            let value = self.disk.0.lock().unwrap().content.value(&[key]);
            let value = value.map(|(_, bytes)| u64::from_le_bytes(bytes[1..9].try_into().unwrap()));
            self.expected.insert(key, Expected { value, possible: Vec::new(), version: None });
        }
    }
}

fn begin(disk: &FakeDisk) -> (Arc<Engine>, Arc<PersistenceState>, Arc<Mutex<Committer>>) {
    let settings = Settings {
        // So little that values are evicted constantly.
        memory: 1 << 20,
        pages: fabric::Pages::Plain,
        when_full: WhenFull::Evict,
        max_value: None,
        idle_timeout: Duration::from_secs(60),
        max_in_flight: None,
        data_dir: None,
    };
    let state: Arc<PersistenceState> = Arc::default();
    let saver = Saver::new(Box::new(disk.clone()));
    let committer = Committer::new(saver, Box::new(disk.clone()), state.clone());
    let run = {
        let mut state = disk.0.lock().unwrap();
        state.runs += 1;
        state.runs
    };
    (
        Engine::for_run(&settings, access::Access::allow_all(), None, run).unwrap(),
        state,
        Arc::new(Mutex::new(committer)),
    )
}

fn value(key: u8, stamp: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![key];
    bytes.extend(stamp.to_le_bytes());
    // Filled with a byte that is specific to the value, so that a chunk of another is detected.
    bytes.resize(length, (stamp.wrapping_mul(31) ^ u64::from(key)) as u8);
    bytes
}

fn reserve(engine: &Arc<Engine>, bytes: &[u8]) -> Option<ReservedValue> {
    let reservation = engine.reserve(bytes.len() as u64).ok()?;
    engine.fill(&reservation, 0, bytes);
    Some(ReservedValue::new(engine.clone(), reservation, None))
}

fn run(seed: u64) {
    let mut test = ModelTest::new(seed);
    for _ in 0..60 {
        match test.below(20) {
            0..9 => test.write(),
            9..18 => test.read(),
            18 => {
                let saved = test.below(2) == 0;
                let (full, failed) = (kv_disk::ErrorKind::Full, kv_disk::ErrorKind::Failed);
                let fault = match test.below(3) {
                    0 => (full, false),
                    1 => (kv_disk::ErrorKind::Damaged, false),
                    _ => (failed, saved),
                };
                test.disk.0.lock().unwrap().faults.push(fault);
            }
            _ => test.crash(),
        }
    }
    test.crash();
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_old_is_read() {
    let seeds = std::env::var("WIRELANE_TEST_SEEDS").ok();
    let seeds = seeds.map_or(400, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let failed = std::panic::catch_unwind(|| run(seed)).is_err();
        assert!(!failed, "seed {seed}; the reason is above");
    }
}

const KEYS: u64 = 12;
