//! Thousands of random operations against a plain map.

mod seeded;

use std::collections::HashMap;

use kv_store::{
    Condition, Cursor, Key, Metadata, Pinned, Range, Reservation, ReserveError, Settings, Store,
    Timestamp, WhenFull, WriteError,
};
use seeded::Random;

#[test]
fn a_store_that_evicts_agrees_with_the_model() {
    for seed in 0..30 {
        ModelTest::new(seed, WhenFull::Evict).run(3000);
    }
}

#[test]
fn a_store_that_refuses_agrees_with_the_model() {
    for seed in 100..130 {
        ModelTest::new(seed, WhenFull::Refuse).run(3000);
    }
}

/// A store, and its expected content.
struct ModelTest {
    store: Store,
    random: Random,
    now: Timestamp,
    pool_bytes: u64,
    refuses: bool,
    model: HashMap<Vec<u8>, ModelValue>,
    pins: Vec<(Pinned, ModelValue)>,
    reservations: Vec<Reservation>,
    versions: u64,
    evicted: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct ModelValue {
    metadata: Metadata,
    ranges: Vec<Range>,
}

impl ModelTest {
    fn new(seed: u64, when_full: WhenFull) -> ModelTest {
        let mut random = Random(seed);
        let pool_bytes = random.one_of(&[64 << 10, 1 << 20, 4 << 20]);
        let shards = random.one_of(&[1, 4, 16]);
        ModelTest {
            store: Store::new(Settings {
                shards,
                when_full,
                seed,
                ..Settings::with_pool(pool_bytes)
            }),
            random,
            now: Timestamp(0),
            pool_bytes,
            refuses: when_full == WhenFull::Refuse,
            model: HashMap::new(),
            pins: Vec::new(),
            reservations: Vec::new(),
            versions: 1,
            evicted: 0,
        }
    }

    fn run(mut self, rounds: u32) {
        for round in 0..rounds {
            match self.random.below(100) {
                0..45 => self.put(),
                45..70 => self.get(),
                70..78 => self.unpin(),
                78..88 => self.delete(),
                88..92 => self.keep_reservation(),
                92..95 => self.advance_time(),
                95..97 => self.list(),
                97..99 => self.cancel(),
                _ if self.random.below(20) == 0 => self.clear(),
                _ => {}
            }
            if round % 50 == 0 {
                self.check();
            }
        }
        self.end();
    }

    fn put(&mut self) {
        let Some(reservation) = self.reserve() else { return };
        let (key, condition) = (self.key(), self.condition());
        let length = reservation.length();
        let ranges = reservation.ranges().as_slice().to_vec();
        let lifetime = self.random.between(1, 400);
        let expires = (self.random.below(3) == 0).then_some(Timestamp(self.now.0 + lifetime));
        let expected = allowed(condition, self.live(&key));
        let replaced = self.live(&key).is_some();
        let done =
            self.store.commit(Key::new(&key).unwrap(), reservation, expires, condition, self.now);
        assert_eq!(done.map(|_| ()), expected);
        let Ok(done) = done else { return };
        assert_eq!((done.version, done.replaced), (self.versions, replaced));
        self.versions += 1;
        let metadata = Metadata { length, version: done.version, expires };
        self.model.insert(key, ModelValue { metadata, ranges });
    }

    fn get(&mut self) {
        let key = self.key();
        let pinned = self.store.pin(Key::new(&key).unwrap(), self.now);
        let value = self.live(&key).cloned();
        let Some(pinned) = pinned else {
            assert_eq!(value, None);
            self.model.remove(&key);
            return;
        };
        let found =
            ModelValue { metadata: pinned.metadata, ranges: pinned.ranges.as_slice().to_vec() };
        assert_eq!(Some(&found), value.as_ref());
        assert_eq!(self.store.stat(Key::new(&key).unwrap(), self.now), Some(found.metadata));
        if self.random.below(3) == 0 {
            self.pins.push((pinned, found));
        } else {
            self.store.unpin(pinned.pin);
        }
    }

    fn unpin(&mut self) {
        if !self.pins.is_empty() {
            let at = self.random.below(self.pins.len() as u64) as usize;
            self.store.unpin(self.pins.swap_remove(at).0.pin);
        }
    }

    fn delete(&mut self) {
        let (key, condition) = (self.key(), self.condition());
        let version = self.live(&key).map(|value| value.metadata.version);
        let expected = allowed(condition, self.live(&key)).map(|()| version);
        assert_eq!(self.store.delete(Key::new(&key).unwrap(), condition, self.now), expected);
        if expected.is_ok() {
            self.model.remove(&key);
        }
    }

    fn keep_reservation(&mut self) {
        let reservation = self.reserve();
        self.reservations.extend(reservation);
    }

    fn cancel(&mut self) {
        if let Some(reservation) = self.reservations.pop() {
            self.store.cancel(reservation);
        }
    }

    fn advance_time(&mut self) {
        self.now.0 += self.random.below(200);
        let max = self.random.below(20) as usize;
        assert!(self.store.expire(self.now, max) <= max);
    }

    fn list(&mut self) {
        let prefix: &[u8] = self.random.one_of(&[b"", b"k", b"key 1", b"key 33", b"none"]);
        let max = self.random.between(1, 50) as usize;
        let mut listed = Vec::new();
        let mut from = Some(Cursor::START);
        while let Some(cursor) = from {
            let page = self.store.list(prefix, cursor, max, 2000, self.now);
            assert!(page.keys.len() <= max);
            listed.extend(page.keys);
            from = page.next.map(|next| Cursor::from(u64::from(next)));
        }
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        let live = |key: &&Vec<u8>| key.starts_with(prefix) && self.live(key).is_some();
        let mut expected: Vec<_> = self.model.keys().filter(live).collect();
        expected.sort();
        let same = |((key, metadata), expected): (&(Box<[u8]>, Metadata), &&Vec<u8>)| {
            key[..] == expected[..] && *metadata == self.model[*expected].metadata
        };
        assert_eq!(listed.len(), expected.len());
        assert!(listed.iter().zip(&expected).all(same));
    }

    fn clear(&mut self) {
        self.store.clear();
        self.model.clear();
    }

    /// Reserves memory, and removes from the model what was evicted for it.
    fn reserve(&mut self) -> Option<Reservation> {
        let length = self.length();
        let reserved = self.store.reserve(length, self.now);
        self.forget_evicted();
        match reserved {
            Ok(reservation) => {
                assert_eq!(reservation.length(), length);
                return Some(reservation);
            }
            Err(ReserveError::TooLong { max }) => assert!(max == self.pool_bytes && length > max),
            Err(ReserveError::Full { needed, free, .. }) => {
                assert!(needed == length && length <= self.pool_bytes);
                assert!(
                    length <= 4096 || free < length.next_multiple_of(4096),
                    "there was enough memory"
                );
            }
        }
        None
    }

    fn forget_evicted(&mut self) {
        let evicted = self.store.usage().evicted - self.evicted;
        self.evicted += evicted;
        assert!(evicted == 0 || !self.refuses);
        let is_expired =
            |value: &ModelValue| value.metadata.expires.is_some_and(|expires| expires <= self.now);
        let is_kept = |key: &[u8], value: &ModelValue| {
            is_expired(value) || self.store.stat(Key::new(key).unwrap(), self.now).is_some()
        };
        let before = self.model.len();
        let removed: Vec<Vec<u8>> = self
            .model
            .iter()
            .filter(|(key, value)| !is_kept(key, value))
            .map(|(key, _)| key.clone())
            .collect();
        for key in removed {
            let version = self.model.remove(&key).unwrap().metadata.version;
            let pinned = self.pins.iter().any(|(pinned, _)| pinned.metadata.version == version);
            assert!(!pinned, "eviction of a pinned value frees nothing");
        }
        assert_eq!(before - self.model.len(), evicted as usize);
    }

    /// Checks that blocks do not overlap, and all counters.
    fn check(&mut self) {
        self.store.expire(self.now, usize::MAX);
        let now = self.now;
        self.model.retain(|_, value| value.metadata.expires.is_none_or(|expires| expires > now));
        let mut blocks: HashMap<u64, ModelValue> =
            self.model.values().map(|value| (value.metadata.version, value.clone())).collect();
        let live = blocks.len();
        blocks.extend(self.pins.iter().map(|(_, value)| (value.metadata.version, value.clone())));
        let mut ranges: Vec<Range> =
            blocks.values().flat_map(|value| value.ranges.clone()).collect();
        for reservation in &self.reservations {
            ranges.extend(reservation.ranges().as_slice());
        }
        assert_disjoint(ranges, self.pool_bytes);
        let usage = self.store.usage();
        let sum = |lengths: &mut dyn Iterator<Item = u64>| lengths.sum::<u64>();
        assert_eq!(usage.keys, live as u64);
        assert_eq!(usage.detached, (blocks.len() - live) as u64);
        assert_eq!(usage.pins, self.pins.len() as u64);
        assert_eq!(
            usage.value_bytes,
            sum(&mut self.model.values().map(|value| value.metadata.length))
        );
        assert_eq!(
            usage.reserved_bytes,
            sum(&mut self.reservations.iter().map(|reservation| reservation.length()))
        );
        let pinned: HashMap<u64, u64> = self
            .pins
            .iter()
            .map(|(_, value)| (value.metadata.version, value.metadata.length))
            .collect();
        assert_eq!(usage.pinned_bytes, sum(&mut pinned.into_values()));
        assert_eq!(usage.used_bytes + usage.free_bytes, self.pool_bytes);
        assert_eq!(usage.puts, self.versions - 1);
    }

    /// Checks that the pool is one free run again after everything is released.
    fn end(mut self) {
        self.check();
        while let Some(key) = self.model.keys().next().cloned() {
            self.store.delete(Key::new(&key).unwrap(), Condition::Always, self.now).unwrap();
            self.model.remove(&key);
        }
        self.pins.drain(..).for_each(|(pinned, _)| self.store.unpin(pinned.pin));
        self.reservations.drain(..).for_each(|reservation| self.store.cancel(reservation));
        let usage = self.store.usage();
        assert_eq!((usage.keys, usage.used_bytes, usage.detached), (0, 0, 0));
        assert_eq!((usage.free_bytes, usage.largest_free), (self.pool_bytes, self.pool_bytes));
    }

    fn live(&self, key: &[u8]) -> Option<&ModelValue> {
        let value = self.model.get(key)?;
        value.metadata.expires.is_none_or(|expires| expires > self.now).then_some(value)
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(400);
        let mut key = format!("key {number}").into_bytes();
        if number.is_multiple_of(5) {
            key.resize(30 + number as usize, b'.');
        }
        key
    }

    fn length(&mut self) -> u64 {
        match self.random.below(20) {
            0 => 0,
            1..10 => self.random.between(1, 500),
            10..15 => self.random.log_uniform(1.0, 33_000.0),
            15..19 => self.random.log_uniform(30_000.0, 300_000.0),
            _ => self.random.below(self.pool_bytes * 5 / 4),
        }
    }

    fn condition(&mut self) -> Condition {
        match self.random.below(6) {
            0 => Condition::IfAbsent,
            1 => Condition::IfVersion(self.random.below(self.versions)),
            2 => {
                let key = self.key();
                let version = self.live(&key).map_or(0, |value| value.metadata.version);
                Condition::IfVersion(version)
            }
            _ => Condition::Always,
        }
    }
}

fn allowed(condition: Condition, live: Option<&ModelValue>) -> Result<(), WriteError> {
    let version = live.map(|value| value.metadata.version);
    match (condition, version) {
        (Condition::IfAbsent, Some(version)) => Err(WriteError::Exists { version }),
        (Condition::IfVersion(_), None) => Err(WriteError::Absent),
        (Condition::IfVersion(wanted), Some(version)) if wanted != version => {
            Err(WriteError::OtherVersion { version })
        }
        _ => Ok(()),
    }
}

fn assert_disjoint(mut ranges: Vec<Range>, pool_bytes: u64) {
    ranges.retain(|range| range.length > 0);
    ranges.sort();
    for pair in ranges.windows(2) {
        assert!(pair[0].offset + pair[0].length <= pair[1].offset, "{pair:?} overlap");
    }
    assert!(ranges.last().is_none_or(|last| last.offset + last.length <= pool_bytes));
    assert!(ranges.iter().all(|range| range.offset % 8 == 0));
}
