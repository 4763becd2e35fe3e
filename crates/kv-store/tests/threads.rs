//! Many concurrent threads on few keys and little memory.

mod seeded;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kv_store::{Condition, Cursor, Key, Ranges, Reservation, Settings, Store, Timestamp, WhenFull};
use seeded::Random;

#[test]
fn no_block_is_torn_or_reused_while_pinned() {
    for (seed, when_full, pool, keys) in [
        (1, WhenFull::Evict, 256 << 10, 48),
        (2, WhenFull::Refuse, 256 << 10, 48),
        (3, WhenFull::Evict, 256 << 10, 48),
        // Large enough for spare slots of 1 KiB; full, and not full.
        (4, WhenFull::Evict, 2 << 20, 1000),
        (5, WhenFull::Refuse, 2 << 20, 1000),
        (6, WhenFull::Evict, 2 << 20, 48),
    ] {
        let shared = SharedState::new(seed, when_full, pool, keys);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let shared = &shared;
                scope.spawn(move || Worker::new(shared, seed, thread).run());
            }
        });
        shared.end();
    }
}

#[test]
fn a_full_store_finds_the_memory_that_other_threads_have_freed() {
    let settings = Settings { when_full: WhenFull::Refuse, ..Settings::with_pool(64 << 20) };
    let (store, now) = (Store::new(settings), Timestamp(0));
    let fill =
        || -> Vec<Reservation> { std::iter::from_fn(|| store.reserve(1000, now).ok()).collect() };
    let all = fill();
    let count = all.len();
    let mut parts = Vec::new();
    all.into_iter().enumerate().for_each(|(number, reservation)| {
        if number % 1000 == 0 {
            parts.push(Vec::new());
        }
        parts.last_mut().unwrap().push(reservation);
    });
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(|| part.into_iter().for_each(|reservation| store.cancel(reservation)));
        }
    });
    let again = fill();
    assert_eq!(again.len(), count);
    again.into_iter().for_each(|reservation| store.cancel(reservation));
    let long = store.reserve(64 << 20, now).expect("all memory is free");
    store.cancel(long);
    assert_eq!(store.usage().used_bytes, 0);
}

/// Others look at the usage, or want more than there is: both return the slots that threads keep.
#[test]
fn a_store_with_free_memory_refuses_nothing() {
    let settings = Settings { when_full: WhenFull::Refuse, ..Settings::with_pool(64 << 20) };
    let (store, now) = (Store::new(settings), Timestamp(0));
    let mut all: Vec<Reservation> = std::iter::from_fn(|| store.reserve(1000, now).ok()).collect();
    all.drain(..200).for_each(|reservation| store.cancel(reservation));
    let running = AtomicU64::new(12);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut held = Vec::new();
                let refused = (0..100_000).find(|round| {
                    if round % 16 < 8 {
                        store.reserve(1000, now).map(|reservation| held.push(reservation)).is_err()
                    } else {
                        held.pop().into_iter().for_each(|reservation| store.cancel(reservation));
                        false
                    }
                });
                running.fetch_sub(1, Ordering::SeqCst);
                held.into_iter().for_each(|reservation| store.cancel(reservation));
                assert_eq!(refused, None, "at most 96 of 200 are in use");
            });
        }
        for number in 0..2 {
            let (store, running) = (&store, &running);
            scope.spawn(move || {
                while running.load(Ordering::SeqCst) > 0 {
                    match number {
                        0 => drop(store.usage()),
                        _ => assert!(store.reserve(1 << 20, now).is_err()),
                    }
                }
            });
        }
    });
    all.into_iter().for_each(|reservation| store.cancel(reservation));
    assert_eq!(store.usage().used_bytes, 0);
}

const THREADS: u64 = 6;
const ROUNDS: u64 = 6000;

/// Shared by the threads: a store, and words instead of the pool's memory.
struct SharedState {
    store: Store,
    pool: u64,
    keys: u64,
    words: Vec<AtomicU64>,
    clock: AtomicU64,
    /// The stamps written, by version, and the stamps read.
    written: Mutex<HashMap<u64, u64>>,
    seen: Mutex<Vec<(u64, u64)>>,
}

struct Worker<'f> {
    shared: &'f SharedState,
    random: Random,
    /// Unique among all threads.
    stamp: u64,
    written: HashMap<u64, u64>,
    seen: Vec<(u64, u64)>,
}

impl SharedState {
    fn new(seed: u64, when_full: WhenFull, pool: u64, keys: u64) -> SharedState {
        let settings = Settings { shards: 4, when_full, seed, ..Settings::with_pool(pool) };
        SharedState {
            store: Store::new(settings),
            pool,
            keys,
            words: (0..pool / 8).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU64::new(0),
            written: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    fn words(&self, ranges: &Ranges) -> impl Iterator<Item = &AtomicU64> {
        let words = |at: u64, length: u64| &self.words[at as usize / 8..(at + length) as usize / 8];
        ranges.as_slice().iter().flat_map(move |range| words(range.offset, range.length))
    }

    /// Checks that each version was read as written, and that all memory is free again.
    fn end(self) {
        let written = self.written.into_inner().unwrap();
        let seen = self.seen.into_inner().unwrap();
        assert!(seen.len() > 1000, "hits: {}", seen.len());
        assert!(seen.iter().all(|(version, stamp)| written[version] == *stamp));
        self.store.clear();
        let usage = self.store.usage();
        assert_eq!((usage.keys, usage.value_bytes, usage.pins, usage.detached), (0, 0, 0, 0));
        assert_eq!((usage.used_bytes, usage.largest_free, usage.reserved_bytes), (0, self.pool, 0));
        assert_eq!(usage.puts as usize, written.len());
    }
}

impl Worker<'_> {
    fn new(shared: &SharedState, seed: u64, thread: u64) -> Worker<'_> {
        let random = Random(seed << 32 | thread);
        Worker { shared, random, stamp: thread << 48, written: HashMap::new(), seen: Vec::new() }
    }

    fn run(mut self) {
        for _ in 0..ROUNDS {
            match self.random.below(20) {
                0..8 => self.put(),
                8..16 => self.get(),
                16 | 17 => self.delete(),
                18 => self.expire(),
                _ => self.list(),
            }
        }
        self.shared.written.lock().unwrap().extend(self.written);
        self.shared.seen.lock().unwrap().extend(self.seen);
    }

    fn put(&mut self) {
        let (shared, now) = (self.shared, self.now());
        let length = self.random.log_uniform(1.0, 5000.0) * 8;
        let Ok(reservation) = shared.store.reserve(length, now) else { return };
        self.stamp += 1;
        self.write(&reservation);
        let name = self.name();
        let key = Key::new(&name).unwrap();
        let condition = match (self.random.below(4), shared.store.stat(key, now)) {
            (0, _) => Condition::IfAbsent,
            (1, Some(metadata)) => Condition::IfVersion(metadata.version),
            _ => Condition::Always,
        };
        let expires = (self.random.below(4) == 0).then_some(Timestamp(now.0 + 20));
        if let Ok(done) = shared.store.commit(key, reservation, expires, condition, now) {
            self.written.insert(done.version, self.stamp);
        }
    }

    /// Fills a reservation, and checks that no other thread writes to it.
    fn write(&self, reservation: &Reservation) {
        let ranges = reservation.ranges();
        self.shared.words(&ranges).for_each(|word| word.store(self.stamp, Ordering::Relaxed));
        std::thread::yield_now();
        let unchanged = |word: &AtomicU64| word.load(Ordering::Relaxed) == self.stamp;
        assert!(self.shared.words(&ranges).all(unchanged), "two threads got the same memory");
    }

    fn get(&mut self) {
        let name = self.name();
        let Some(pinned) = self.shared.store.pin(Key::new(&name).unwrap(), self.now()) else {
            return;
        };
        let words = || self.shared.words(&pinned.ranges).map(|word| word.load(Ordering::Relaxed));
        let stamp = words().next().unwrap();
        for _ in 0..2 {
            assert!(words().all(|word| word == stamp), "a pinned value changed");
            std::thread::yield_now();
        }
        assert_eq!(words().count() as u64 * 8, pinned.metadata.length);
        self.seen.push((pinned.metadata.version, stamp));
        self.shared.store.unpin(pinned.pin);
    }

    fn delete(&mut self) {
        let name = self.name();
        let deleted =
            self.shared.store.delete(Key::new(&name).unwrap(), Condition::Always, self.now());
        assert!(deleted.is_ok());
    }

    fn expire(&mut self) {
        self.shared.clock.fetch_add(1, Ordering::Relaxed);
        self.shared.store.expire(self.now(), 10);
    }

    fn list(&mut self) {
        let page = self.shared.store.list(b"key", Cursor::START, 100, 1 << 20, self.now());
        assert!(page.keys.len() <= self.shared.keys as usize);
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.shared.clock.load(Ordering::Relaxed))
    }

    fn name(&mut self) -> Vec<u8> {
        format!("key {}", self.random.below(self.shared.keys)).into_bytes()
    }
}
