//! Measures how long the calls of a store take.
//!
//! `rate [KEYS]` prints nanoseconds per call: a hit (pin and unpin), and puts of 100 bytes that
//! insert, replace and evict; with one thread, and with two concurrently.
#![allow(clippy::print_stdout, reason = "its output")]

use std::hint::black_box;
use std::time::Instant;

use kv_store::{Condition, Key, Settings, Store, Timestamp};

const NOW: Timestamp = Timestamp(0);

/// Calls timed together.
const BATCH: u64 = 1000;

fn main() {
    let keys = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number"));
    let store = Store::new(Settings::with_pool(keys * 112 + (1 << 20)));
    let small = Store::new(Settings::with_pool(keys * 52));
    println!("{keys} keys of 16 bytes, values of 100 bytes; ns for each call");
    println!("{:>12} {:>8} {:>8}", "", "1 thread", "2");
    for (name, store, call) in [
        ("put, new", &store, put as fn(&Store, u64)),
        ("put again", &store, put),
        ("hit", &store, hit),
        ("put, evicts", &small, put),
    ] {
        let one = time(1, keys, |number| call(store, number));
        let two = time(2, keys, |number| call(store, number));
        println!("{name:>12} {one:>8.0} {two:>8.0}");
    }
    let usage = store.usage();
    let per_key = |bytes: u64| bytes as f64 / usage.keys as f64;
    println!(
        "{:.1} bytes of index and {:.1} of the pool for each key; {} evicted",
        per_key(usage.index_bytes),
        per_key(usage.used_bytes),
        small.usage().evicted
    );
}

/// Nanoseconds per call; every thread calls for all keys in its own random order. The
/// median over batches, since the machine may have other load.
fn time(threads: u64, keys: u64, call: impl Fn(u64) + Sync) -> f64 {
    let mut batches: Vec<f64> = std::thread::scope(|scope| {
        let run = |thread| {
            let call = &call;
            scope.spawn(move || batches(thread, keys, call))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

fn batches(thread: u64, keys: u64, call: impl Fn(u64)) -> Vec<f64> {
    // A step that has no factor in common with the number of keys visits all.
    let step = 7_368_787 + thread * 2;
    let batch = |first: u64| {
        let started = Instant::now();
        (first..first + BATCH).for_each(|number| call((number * step + thread) % keys));
        started.elapsed().as_nanos() as f64 / BATCH as f64
    };
    (0..keys).step_by(BATCH as usize).map(batch).collect()
}

fn put(store: &Store, number: u64) {
    let name = name(number);
    let reservation = store.reserve(100, NOW).expect("memory");
    black_box(reservation.ranges());
    let key = Key::new(&name).expect("a key");
    store.commit(key, reservation, None, Condition::Always, NOW).expect("no condition");
}

fn hit(store: &Store, number: u64) {
    let name = name(number);
    let pinned = store.pin(Key::new(&name).expect("a key"), NOW).expect("a hit");
    black_box(&pinned.ranges);
    store.unpin(pinned.pin);
}

fn name(number: u64) -> [u8; 16] {
    let mut name = *b"key:............";
    name[8..].copy_from_slice(&number.to_le_bytes());
    name
}
