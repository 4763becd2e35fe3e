//! How often what is asked for is still there.

mod seeded;

use std::collections::{HashSet, VecDeque};

use kv_store::{Condition, Key, Moment, Settings, Store};
use seeded::Random;

const NOW: Moment = Moment(0);

/// Requests where the second key is asked for half as often as the first, the third a third, and
/// so on; a miss puts the key. A tenth of the keys fit.
#[test]
fn more_hits_than_first_in_first_out() {
    let (keys, room, requests) = (20_000, 2000, 200_000);
    let ranks = Zipf::new(keys);
    let store = Store::new(Settings::with_pool(room * 4096));
    let mut fifo = Fifo::default();
    let (mut random, mut ours, mut theirs) = (Random(7), 0, 0);
    for _ in 0..requests {
        let rank = ranks.draw(&mut random);
        ours += u64::from(ask(&store, rank));
        theirs += u64::from(fifo.ask(rank, room as usize));
    }
    let share = |hits: u64| hits as f64 * 100.0 / f64::from(requests);
    eprintln!("hits: {:.1} %, first in first out {:.1} %", share(ours), share(theirs));
    assert!(share(ours) > share(theirs) + 4.0);
}

/// A hot set that is read again and again stays while keys that are asked for once pass by.
#[test]
fn hot_keys_stay_while_others_pass() {
    let store = Store::new(Settings { shards: 1, ..Settings::with_pool(1000 * 4096) });
    let mut misses = 0;
    for round in 0..100 {
        misses += (0..200).filter(|hot| !ask(&store, *hot)).count();
        let cold = 1000 + round * 300;
        assert!((cold..cold + 300).all(|cold| !ask(&store, cold)));
    }
    assert_eq!(misses, 200, "each hot key is put once");
}

/// Whether the key was there; if not, it is now.
fn ask(store: &Store, number: u64) -> bool {
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
    held: HashSet<u64>,
}

impl Fifo {
    fn ask(&mut self, number: u64, room: usize) -> bool {
        if !self.held.insert(number) {
            return true;
        }
        self.order.push_back(number);
        if self.order.len() > room {
            self.order.pop_front().map(|oldest| self.held.remove(&oldest));
        }
        false
    }
}

/// Ranks whose chance falls with their number.
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
