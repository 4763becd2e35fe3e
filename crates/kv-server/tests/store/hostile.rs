//! Misbehaving clients: they are disconnected, and other clients are not affected.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Link, Transport};
use fabric::{Lane, Memory, Op, Pages, Region, Rights, wait};
use kv_client::{Condition, PutOptions};
use kv_proto::wire::{
    BatchHead, ClientHello, Destination, Grant, Request, RequestSlot, SlotBlock, Source,
};

use crate::stamped_values::Random;
use crate::test_server::{TestServer as Store, number, over, settings, until};

/// A client that sends arbitrary messages, and its memory.
pub(crate) struct RawClient {
    link: Link,
    region: Region,
}

impl RawClient {
    pub(crate) fn call(store: &Store, endpoint: &Endpoint) -> Self {
        let memory = Memory::allocate(1 << 20, Pages::Plain).unwrap();
        let rights = Rights { read: true, write: true, atomic: false };
        let region = endpoint.register(&memory, rights).unwrap();
        let link = endpoint.connect(store.address, Duration::from_secs(20)).unwrap();
        RawClient { link, region }
    }

    pub(crate) fn open(&mut self) {
        let client_buffer = self.link.grant(&self.region).unwrap().to_bytes();
        self.send(
            &ClientHello::Store { session: None, client_buffer, slot_block: true }.to_bytes(),
        );
    }

    /// Sends a message.
    fn send(&mut self, message: &[u8]) {
        self.region.memory().write(MESSAGE_AT, message);
        let mut ops = VecDeque::from([
            Op::receive(1, self.region.slice(900_000..)),
            Op::send(2, self.region.slice(MESSAGE_AT..MESSAGE_AT + message.len())),
        ]);
        let mut done = Vec::new();
        while !ops.is_empty() && self.link.ended().is_none() {
            self.link.post(&mut ops);
            self.link.poll(&mut done);
        }
        wait(&mut self.link, &mut done, Duration::from_millis(2));
    }

    pub(crate) fn is_disconnected(&mut self) -> bool {
        let started = std::time::Instant::now();
        let mut done = Vec::new();
        while self.link.ended().is_none() && started.elapsed() < Duration::from_secs(20) {
            wait(&mut self.link, &mut done, Duration::from_millis(50));
        }
        self.link.ended().is_some()
    }
}

/// Request slots without a batch, of any length, and answers without space for a completion flag.
#[test]
fn invalid_request_slots_do_no_harm() {
    let store = Store::open(&settings(16 << 20), over(Transport::Shm));
    let endpoint = Endpoint::new(over(Transport::Shm)).unwrap();
    let mut honest = store.client(over(Transport::Shm));
    honest.put(b"k", &[7; 3000], &PutOptions::default()).unwrap();
    let mut random = Random(12);
    for round in 0..60_u64 {
        let mut bad_client = RawClient::call(&store, &endpoint);
        bad_client.open();
        // The slot block of a client that sends a message is polled.
        bad_client.send(&batch(300_000, 4096, &[get(b"k")]));
        for slot_sequence in 1..=10_u64 {
            let slot = match round % 4 {
                // The batch that was just sent, whose answers have space for a completion flag.
                0 => RequestSlot {
                    slot_sequence: slot_sequence as u16,
                    length: 24 + 65,
                    at: (MESSAGE_AT / 64) as u32,
                },
                1 => RequestSlot {
                    slot_sequence: slot_sequence as u16,
                    length: u16::MAX,
                    at: u32::MAX,
                },
                2 => RequestSlot { slot_sequence: slot_sequence as u16, length: 0, at: 0 },
                _ => RequestSlot::from_word(random.below(u64::MAX)),
            };
            bad_client.region.memory().store(SlotBlock::slot(slot_sequence), slot.to_word());
            let mut done = Vec::new();
            wait(&mut bad_client.link, &mut done, Duration::from_micros(300));
        }
        assert_eq!(honest.get(b"k").unwrap().map(|got| got.to_vec()), Some(vec![7; 3000]));
    }
    drop(honest);
    assert_released(&store);
}

/// A client that reads in place and never publishes its progress gets a limited number of pins, released when it
/// disconnects.
#[test]
fn pinned_reads_are_limited() {
    let store = Store::open(&settings(64 << 20), over(Transport::Shm));
    let endpoint = Endpoint::new(over(Transport::Shm)).unwrap();
    let mut honest = store.client(over(Transport::Shm));
    honest.put(b"k", &[7; 60_000], &PutOptions::default()).unwrap();
    let mut identity = RawClient::call(&store, &endpoint);
    identity.open();
    let destination = Destination::Inline;
    let long = Request::Get {
        key: b"k",
        offset: 0,
        length: 60_000,
        destination,
        open_handle: false,
        checksum: false,
    };
    let head = BatchHead { in_place: true, count: 8, tag: 3, at: 300_008, capacity: 500_000 };
    let mut message = head.to_bytes().to_vec();
    (0..8).for_each(|_| long.put(&mut message));
    let memory = identity.region.memory().clone();
    let mut done = Vec::new();
    for slot_sequence in 1..=100_u64 {
        // The slot block of a client that sends a message is polled for a while.
        while memory.load(SlotBlock::STORE) != SlotBlock::SET {
            assert_eq!(identity.link.ended(), None);
            identity.send(&message);
        }
        let at = (MESSAGE_AT / 64) as u32;
        let slot =
            RequestSlot { slot_sequence: slot_sequence as u16, length: message.len() as u16, at };
        memory.store(SlotBlock::slot(slot_sequence), slot.to_word());
        let limit = Instant::now() + Duration::from_secs(60);
        while memory.load(300_000) != slot_sequence {
            assert!(Instant::now() < limit, "no answer to {slot_sequence}");
            identity.link.poll(&mut done);
            // A client whose slot block is no longer polled must send a message again.
            if memory.load(SlotBlock::STORE) != SlotBlock::SET {
                identity.send(&message);
            }
            std::thread::yield_now();
        }
    }
    let usage = store.engine.index.usage();
    assert!(usage.pins > 100 && usage.pins < 180, "8 MiB of 60,000 bytes each: {usage:?}");
    assert_eq!(honest.get(b"k").unwrap().map(|got| got.len()), Some(60_000));
    drop((identity, honest));
    assert_released(&store);
}

/// Hundreds of long values into the same region, each with a checksum, in one short message: the worker does not compute
/// them all before it serves others.
#[test]
fn the_work_of_one_batch_is_limited() {
    let store = Store::open(&settings(256 << 20), over(Transport::Tcp));
    let endpoint = Endpoint::new(over(Transport::Tcp)).unwrap();
    let mut honest = store.client(over(Transport::Tcp));
    let long = vec![7; 40 << 20];
    honest.put(b"k", &long, &PutOptions::default()).unwrap();
    let mut greedy = RawClient::call(&store, &endpoint);
    greedy.open();
    let large = Memory::allocate(40 << 20, Pages::Plain).unwrap();
    let rights = Rights { read: true, write: true, atomic: false };
    let large = endpoint.register(&large, rights).unwrap();
    let region = greedy.link.grant(&large).unwrap().to_bytes();
    greedy.send(&Grant { number: 1, region }.to_bytes());
    let before = store.engine.counts().bytes_out.load(Ordering::Relaxed);
    let (destination, length) = (Destination::Region { region: 1, at: 0 }, 40 << 20);
    let get = Request::Get {
        key: b"k",
        offset: 0,
        length,
        destination,
        open_handle: false,
        checksum: true,
    };
    greedy.send(&batch(300_000, 100_000, &vec![get; 200]));
    until("it is answered", || {
        let mut done = Vec::new();
        wait(&mut greedy.link, &mut done, Duration::from_millis(20));
        store.engine.counts().bytes_out.load(Ordering::Relaxed) > before
    });
    let sent = store.engine.counts().bytes_out.load(Ordering::Relaxed) - before;
    assert_eq!(sent, 64 << 20, "the first value, and the second up to 64 MiB");
    drop((greedy, honest));
    assert_released(&store);
}

/// A client that requests long values repeatedly and never polls, so that no answer completes.
#[test]
fn a_client_that_never_polls_does_not_block_others() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let store = Store::open(&settings(64 << 20), over(transport));
        let endpoint = Endpoint::new(over(transport)).unwrap();
        let mut honest = store.client(over(transport));
        honest.put(b"k", &[7; 500_000], &PutOptions::default()).unwrap();
        let mut stalled = RawClient::call(&store, &endpoint);
        stalled.open();
        let destination = Destination::Inline;
        let long = Request::Get {
            key: b"k",
            offset: 0,
            length: 500_000,
            destination,
            open_handle: true,
            checksum: false,
        };
        let message = batch(200_000, 600_000, &[long]);
        stalled.region.memory().write(MESSAGE_AT, &message);
        let mut ops = VecDeque::new();
        for token in 0..300 {
            ops.push_back(Op::send(
                token + 10,
                stalled.region.slice(MESSAGE_AT..MESSAGE_AT + message.len()),
            ));
            stalled.link.post(&mut ops);
        }
        for round in 0..100_u8 {
            honest.put(b"own", &[round; 20_000], &PutOptions::default()).unwrap();
            let got = honest.get(b"own").unwrap().unwrap();
            assert_eq!(got.to_vec(), [round; 20_000]);
        }
        drop((stalled, honest));
        assert_released(&store);
    }
}

fn get(key: &[u8]) -> Request<'_> {
    let destination = Destination::Inline;
    Request::Get { key, offset: 0, length: 100, destination, open_handle: true, checksum: true }
}

fn batch(at: u64, capacity: u64, requests: &[Request<'_>]) -> Vec<u8> {
    let head = BatchHead { in_place: false, count: requests.len() as u16, tag: 3, at, capacity };
    let mut bytes = head.to_bytes().to_vec();
    requests.iter().for_each(|request| request.put(&mut bytes));
    bytes
}

#[test]
fn protocol_errors_are_disconnected() {
    let store = Store::open(&settings(16 << 20), over(Transport::Tcp));
    let endpoint = Endpoint::new(over(Transport::Tcp)).unwrap();
    let put = |length, at| Request::Put {
        key: b"k",
        length,
        source: Source::Region { region: 0, at },
        ttl: None,
        condition: Condition::Always,
        sequence: 1,
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("answers beyond the client buffer", batch(1 << 20, 4096, &[get(b"k")])),
        ("answers that wrap around", batch(u64::MAX - 10, 4096, &[get(b"k")])),
        ("answers beyond the capacity", batch(0, 148, &[get(b"k"), get(b"k")])),
        ("an empty key", batch(0, 4096, &[get(b"")])),
        ("a key too long", batch(0, 4096, &[get(&[1; 5000])])),
        ("more bytes than a batch may put", batch(0, 4096, &[put(1 << 40, 0), put(2 << 30, 0)])),
        ("the client buffer granted again", Grant { number: 0, region: [0; 36] }.to_bytes()),
        ("an unknown region", Grant { number: 7, region: [1; 36] }.to_bytes()),
        ("revoking an unknown region", Grant::revoke(9)),
        ("an empty message", Vec::new()),
        ("noise", vec![0xa5; 3000]),
        ("a message too long", vec![1; 40_000]),
    ];
    for (what, message) in cases {
        let mut bad_client = RawClient::call(&store, &endpoint);
        bad_client.open();
        if message.is_empty() {
            bad_client.send(&[0]);
        } else {
            bad_client.send(&message);
        }
        // A value longer than the store is refused by an answer.
        let refused = what == "more bytes than a batch may put";
        assert!(refused || bad_client.is_disconnected(), "{what}");
    }
    let mut early = RawClient::call(&store, &endpoint);
    early.send(&batch(0, 4096, &[get(b"k")]));
    assert!(early.is_disconnected(), "a batch before the hello");
    assert_released(&store);
}

#[test]
fn mutated_batches_do_no_harm() {
    let store = Store::open(&settings(16 << 20), over(Transport::Shm));
    let endpoint = Endpoint::new(over(Transport::Shm)).unwrap();
    let mut honest = store.client(over(Transport::Shm));
    honest.put(b"k", &[7; 3000], &PutOptions::default()).unwrap();
    let requests = [
        get(b"k"),
        Request::Put {
            key: b"other",
            length: 300,
            source: Source::Region { region: 0, at: 5000 },
            ttl: Some(10_000),
            condition: Condition::Always,
            sequence: 1,
        },
        Request::Begin { length: 5000 },
        Request::Chunk { handle: 1, offset: 0, length: 300, source: Source::Inline(&[1; 300]) },
        Request::Read {
            handle: 1,
            offset: 5,
            length: 40,
            destination: Destination::Inline,
            checksum: true,
        },
        Request::List { prefix: b"", cursor: 0, length: 10_000 },
    ];
    let good = batch(4096, 60_000, &requests);
    let mut random = Random(4711);
    let mut bad_client = RawClient::call(&store, &endpoint);
    bad_client.open();
    for _ in 0..number("WIRELANE_TEST_MUTATIONS", 400) {
        if bad_client.link.ended().is_some() {
            bad_client = RawClient::call(&store, &endpoint);
            bad_client.open();
        }
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.below(256) as u8;
        }
        bad.truncate(bad.len() - random.below(3) as usize);
        bad_client.send(&bad);
        if random.below(20) == 0 {
            assert_eq!(honest.get(b"k").unwrap().map(|got| got.to_vec()), Some(vec![7; 3000]));
        }
    }
    drop((bad_client, honest));
    assert_released(&store);
}

/// The offset of messages in the client's memory.
const MESSAGE_AT: usize = 64 << 10;

fn assert_released(store: &Store) {
    until("everything is released", || {
        let usage = store.engine.index.usage();
        [usage.pins, usage.reserved_bytes, usage.detached] == [0; 3] && store.connections() == 0
    });
}
