//! The memory per key, measured by a counting allocator.
#![allow(unsafe_code, reason = "an allocator is an unsafe trait; this one only adds up lengths")]

mod seeded;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use kv_store::{Condition, Key, Settings, Store, Timestamp};
use seeded::Random;

const NOW: Timestamp = Timestamp(0);

#[global_allocator]
static HEAP: Counting = Counting(AtomicU64::new(0));

/// One test, since others would run concurrently and be counted too.
#[test]
fn usage_reports_the_memory_per_key() {
    let plain = measure(1_000_000, |number, _| (name(number, 16), 100, None));
    assert!(plain.0 < 80.0, "{plain:?}");
    measure(100_000, |number, random| {
        let expires = (number % 2 == 0).then_some(Timestamp(1 + random.below(1000)));
        (name(number, random.between(8, 60) as usize), random.below(200_000), expires)
    });
}

/// Bytes of heap and of the pool per key. The heap is counted, and `usage` must agree.
fn measure(
    keys: u64,
    value: impl Fn(u64, &mut Random) -> (Vec<u8>, u64, Option<Timestamp>),
) -> (f64, f64) {
    let mut random = Random(1);
    let before = HEAP.0.load(Ordering::Relaxed);
    let store = Store::new(Settings::with_pool(1 << 30));
    for number in 0..keys {
        let (name, length, expires) = value(number, &mut random);
        let reservation = store.reserve(length, NOW).unwrap();
        let key = Key::new(&name).unwrap();
        store.commit(key, reservation, expires, Condition::Always, NOW).unwrap();
    }
    let counted = (HEAP.0.load(Ordering::Relaxed) - before) as f64;
    let usage = store.usage();
    let per_key = |bytes: f64| bytes / usage.keys as f64;
    let (heap, pool) = (per_key(usage.index_bytes as f64), per_key(usage.used_bytes as f64));
    eprintln!(
        "{} keys: {heap:.1} bytes of index each, {:.1} counted; {pool:.1} of the pool",
        usage.keys,
        per_key(counted)
    );
    assert!((usage.index_bytes as f64 / counted - 1.0).abs() < 0.02);
    (heap, pool)
}

fn name(number: u64, length: usize) -> Vec<u8> {
    let mut name = number.to_le_bytes().to_vec();
    name.resize(length, b'.');
    name
}

/// The system's allocator, with the number of allocated bytes.
struct Counting(AtomicU64);

// SAFETY: every call is forwarded to `System`, which upholds the contract of the trait.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller got `pointer` from one of these, and so from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
