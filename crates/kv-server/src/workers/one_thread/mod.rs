//! A worker and its client in one thread, so that neither waits for the other: what a request may not cost, and for a tool that counts
//! instructions (`cargo xtask compare instructions`).

mod allocations;
mod system_calls;

use std::time::Duration;

use access::Access;
use fabric::Pages;
use fabric::link::{Endpoint, EndpointSettings, Transport};
use kv_client::{CallId, Client, PutOptions};
use kv_store::WhenFull;

use super::context::WorkerContext;
use super::pool::Shared;
use super::worker::{Rounds, Worker};
use crate::engine::{Engine, Settings};

struct OneThread {
    worker: Worker,
    rounds: Rounds,
    client: Client,
    ready: Vec<CallId>,
}

impl OneThread {
    fn connect() -> Self {
        let settings = Settings {
            memory: 16 << 20,
            pages: Pages::Plain,
            when_full: WhenFull::Evict,
            max_value: None,
            max_in_flight: None,
            idle_timeout: Duration::from_secs(60),
            data_dir: None,
        };
        let engine = Engine::with_access(&settings, Access::allow_all()).unwrap();
        let links =
            EndpointSettings { transports: vec![Transport::Shm], ..EndpointSettings::default() };
        let endpoint = Endpoint::new(links.clone()).unwrap();
        let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (shared, _) = Shared::new(1).unwrap();
        let context = WorkerContext::new(engine, endpoint, shared.clone(), 0).unwrap();
        let mut worker = Worker::new(shared, 0, context).unwrap();
        let settings = kv_client::Settings::new(listener.address()).with_link(links);
        let connecting = std::thread::spawn(|| Client::connect(settings).unwrap());
        let mut done = Vec::new();
        while !connecting.is_finished() {
            if let Some(Ok(link)) = listener.accept(Duration::from_millis(1)) {
                worker.serve(link).unwrap();
            }
            worker.wait(Some(Duration::ZERO));
            worker.step(&mut done);
        }
        let client = connecting.join().unwrap();
        OneThread { worker, rounds: Rounds::default(), client, ready: Vec::new() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let pending = self.client.begin_put(key, value, &PutOptions::default()).unwrap();
        self.until_ready();
        self.client.finish_put(key, pending).unwrap();
    }

    fn get(&mut self, key: &[u8], length: usize) {
        let pending = self.client.begin_get(key, length).unwrap();
        self.until_ready();
        let value = self.client.finish_get(key, pending).unwrap().unwrap();
        assert_eq!(value.len(), length);
    }

    fn until_ready(&mut self) {
        self.client.flush().unwrap();
        self.ready.clear();
        while self.ready.is_empty() {
            self.worker.round(&mut self.rounds);
            self.client.ready_within(Duration::ZERO, &mut self.ready).unwrap();
        }
    }
}

/// What is counted.
#[inline(never)]
fn counted_round(ends: &mut OneThread, key: &[u8], length: usize) {
    ends.get(key, length);
}

/// `WIRELANE_VALUE_BYTES` and `WIRELANE_ROUNDS` are the length of the value, and how often it is read.
#[test]
fn a_get_is_answered_by_a_worker_in_the_same_thread() {
    let number = |name: &str, default| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let (length, rounds) = (number("WIRELANE_VALUE_BYTES", 64), number("WIRELANE_ROUNDS", 100));
    let mut ends = OneThread::connect();
    let key = b"a key of a test";
    ends.put(key, &vec![7; length]);
    (0..WARM_UP).for_each(|_| ends.get(key, length));
    (0..rounds).for_each(|_| counted_round(&mut ends, key, length));
}

#[test]
fn a_short_get_neither_allocates_nor_calls_the_system() {
    for length in [64, 4096] {
        // Its own thread, since a thread's calls can be counted once.
        std::thread::spawn(move || get_without_cost(length)).join().unwrap();
    }
}

/// Beside a request there is other work from time to time: to see whether the peer lives, to look for new connections. So not all
/// batches of gets need to be free of allocations and calls, but one must be.
fn get_without_cost(length: usize) {
    let mut ends = OneThread::connect();
    let key = b"a key of a test";
    ends.put(key, &vec![7; length]);
    // Buffers get their usual sizes.
    (0..WARM_UP).for_each(|_| ends.get(key, length));
    let calls = system_calls::count_of_this_thread();
    let mut used = Vec::with_capacity(BATCHES);
    let is_free = (0..BATCHES).any(|_| {
        let before = (allocations::of_this_thread(), calls.count());
        (0..GETS).for_each(|_| ends.get(key, length));
        let after = (allocations::of_this_thread(), calls.count());
        used.push((after.0 - before.0, after.1 - before.1));
        used.last() == Some(&(0, 0))
    });
    assert!(
        is_free,
        "of {length} bytes: allocations and calls of {BATCHES} batches of {GETS} gets: {used:?}; the last call: {}",
        calls.last()
    );
}

const WARM_UP: usize = 2000;
const BATCHES: usize = 100;
const GETS: usize = 100;
