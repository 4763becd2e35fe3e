//! Hit rates under eviction.

mod seeded;

use std::collections::{HashSet, VecDeque};

use kv_store::{Condition, Key, Settings, Store, Timestamp};
use seeded::Random;

const NOW: Timestamp = Timestamp(0);

/// Zipf-distributed requests: the second key is requested half as often as the first, the third a third, and
/// so on; a miss puts the key. A tenth of the keys fit.
#[test]
fn more_hits_than_fifo() {
    let (keys, capacity, requests) = (20_000, 2000, 200_000);
    let ranks = Zipf::new(keys);
    let store = Store::new(Settings::with_pool(capacity * 4096));
    let mut fifo = Fifo::default();
    let (mut random, mut store_hits, mut fifo_hits) = (Random(7), 0, 0);
    for _ in 0..requests {
        let rank = ranks.draw(&mut random);
        store_hits += u64::from(request(&store, rank));
        fifo_hits += u64::from(fifo.request(rank, capacity as usize));
    }
    let percent = |hits: u64| hits as f64 * 100.0 / f64::from(requests);
    eprintln!("hits: {:.1} %, FIFO {:.1} %", percent(store_hits), percent(fifo_hits));
    assert!(percent(store_hits) > percent(fifo_hits) + 4.0);
}

/// A hot set that is read repeatedly stays, while keys that are requested once are evicted.
#[test]
fn hot_keys_are_not_evicted() {
    let store = Store::new(Settings { shards: 1, ..Settings::with_pool(1000 * 4096) });
    let mut misses = 0;
    for round in 0..100 {
        misses += (0..200).filter(|hot| !request(&store, *hot)).count();
        let cold = 1000 + round * 300;
        assert!((cold..cold + 300).all(|cold| !request(&store, cold)));
    }
    assert_eq!(misses, 200, "each hot key is put once");
}

/// Returns whether the key was present, and puts it if not.
fn request(store: &Store, number: u64) -> bool {
    let name = number.to_le_bytes();
    let key = Key::new(&name).unwrap();
    if let Some(pinned) = store.pin(key, NOW) {
        store.unpin(pinned.pin);
        return true;
    }
    let reservation = store.reserve(4096, NOW).unwrap();
    store.commit(key, reservation, None, Condition::Always, NOW).unwrap();
    false
}

#[derive(Default)]
struct Fifo {
    order: VecDeque<u64>,
    keys: HashSet<u64>,
}

impl Fifo {
    fn request(&mut self, number: u64, capacity: usize) -> bool {
        if !self.keys.insert(number) {
            return true;
        }
        self.order.push_back(number);
        if self.order.len() > capacity {
            self.order.pop_front().map(|oldest| self.keys.remove(&oldest));
        }
        false
    }
}

/// Ranks whose probability is inverse to their number: cumulative sums.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: u64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum < at) as u64
    }
}
