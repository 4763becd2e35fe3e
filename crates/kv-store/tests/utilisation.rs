//! The utilisation of a full pool: bytes of values per byte of pool.

mod seeded;

use std::cell::Cell;

use kv_store::{Condition, Key, Settings, Store, Timestamp, WhenFull};
use seeded::Random;

const NOW: Timestamp = Timestamp(0);
const POOL: u64 = 64 << 20;

#[test]
fn values_of_one_length() {
    check("1000 B", 0.95, 0.95, |_| 1000);
    check("3000 B", 0.95, 0.95, |_| 3000);
    check("40000 B", 0.95, 0.95, |_| 40_000);
}

#[test]
fn uniform_lengths() {
    check("uniform 1 B to 64 KiB", 0.9, 0.85, |random| random.between(1, 64 << 10));
    check("uniform 1 B to 1 KiB", 0.9, 0.85, |random| random.between(1, 1 << 10));
}

#[test]
fn log_uniform_lengths() {
    let lengths = |random: &mut Random| random.log_uniform(64.0, (1 << 20) as f64);
    check("log-uniform 64 B to 1 MiB", 0.9, 0.85, lengths);
}

/// Blocks of attention keys and values as inference servers store them, with small headers.
#[test]
fn blocks_of_a_kv_cache() {
    let lengths = |random: &mut Random| match random.below(10) {
        0 | 1 => random.between(100, 600),
        2 => 18 << 10,
        3 | 4 => 128 << 10,
        5 | 6 => 576 << 10,
        7 | 8 => 1 << 20,
        _ => (2 << 20) + 4096,
    };
    check("blocks of a KV cache", 0.9, 0.85, lengths);
}

/// New values have other lengths than those they replace.
#[test]
fn lengths_that_change_with_time() {
    let written = Cell::new(0);
    let lengths = |random: &mut Random| {
        let length = match written.get() / POOL % 3 {
            0 => random.between(100, 300),
            1 => random.between(100_000, 300_000),
            _ => random.between(2000, 6000),
        };
        written.set(written.get() + length);
        length
    };
    check("lengths that change", 0.9, 0.8, lengths);
}

/// All memory is in short slots, and some values of each slab were read recently.
#[test]
fn one_long_value_does_not_evict_all_short_ones() {
    let store = Store::new(Settings::with_pool(POOL));
    let mut random = Random(3);
    let count = POOL / 104;
    for number in 0..count {
        assert!(put(&store, number, 100));
        let read = random.below(number + 1).to_le_bytes();
        if let Some(pinned) = store.pin(Key::new(&read).unwrap(), NOW) {
            store.unpin(pinned.pin);
        }
    }
    assert_eq!(store.usage().free_bytes, 0);
    let before = store.usage().keys;
    assert!(put(&store, count, 1 << 20));
    let lost = (before - store.usage().keys) as f64 / before as f64;
    eprintln!("one value of 1 MiB in 64 MiB: {:.1} % of the short ones were evicted", lost * 100.0);
    assert!(lost < 0.1, "{lost}");
}

/// Prints both results and asserts that they reach the minimum.
fn check(name: &str, filled: f64, churned: f64, lengths: impl Fn(&mut Random) -> u64) {
    let at_first_refusal = fill(&lengths);
    let (mean, min) = churn(&lengths);
    eprintln!(
        "{name}: {:.1} % at the first refusal; with eviction {:.1} %, at min {:.1} %",
        at_first_refusal * 100.0,
        mean * 100.0,
        min * 100.0
    );
    assert!(at_first_refusal >= filled, "{name}: {at_first_refusal}");
    assert!(mean >= churned, "{name}: {mean}");
}

fn fill(lengths: impl Fn(&mut Random) -> u64) -> f64 {
    let store = Store::new(Settings { when_full: WhenFull::Refuse, ..Settings::with_pool(POOL) });
    let mut random = Random(1);
    let mut number = 0;
    while put(&store, number, lengths(&mut random)) {
        number += 1;
    }
    share(&store)
}

/// The mean and the minimum share while four times the pool is written into a full store. Some keys
/// are read and some overwritten, so that values are not evicted in insertion order.
fn churn(lengths: impl Fn(&mut Random) -> u64) -> (f64, f64) {
    let store = Store::new(Settings::with_pool(POOL));
    let mut random = Random(2);
    let (mut written, mut number, mut shares) = (0, 0, Vec::new());
    while written < 5 * POOL {
        let length = lengths(&mut random);
        let overwrites = random.below(10) == 0;
        let key = if overwrites { random.below(number + 1) } else { number };
        assert!(put(&store, key, length));
        number += u64::from(!overwrites);
        let read = (number.saturating_sub(random.below(200)) / 3 * 3).to_le_bytes();
        if let Some(pinned) = store.pin(Key::new(&read).unwrap(), NOW) {
            store.unpin(pinned.pin);
        }
        written += length;
        if written > POOL * 3 / 2 + shares.len() as u64 * (POOL / 64) {
            shares.push(share(&store));
        }
    }
    let min = shares.iter().copied().fold(1.0, f64::min);
    (shares.iter().sum::<f64>() / shares.len() as f64, min)
}

fn put(store: &Store, number: u64, length: u64) -> bool {
    let Ok(reservation) = store.reserve(length, NOW) else { return false };
    let name = number.to_le_bytes();
    let key = Key::new(&name).unwrap();
    store.commit(key, reservation, None, Condition::Always, NOW).is_ok()
}

fn share(store: &Store) -> f64 {
    store.usage().value_bytes as f64 / POOL as f64
}
