//! Clients that send what no client of ours sends: they are sent away, and nobody else notices.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabric::link::{Class, Endpoint, Link};
use fabric::{Lane, Memory, Op, Pages, Region, Rights, wait};
use kv_client::{Condition, PutOptions};
use kv_proto::wire::{
    BatchHead, ClientHello, ControlBlock, Grant, Place, Request, RequestSlot, Source,
};

use crate::stamped_values::Chance;
use crate::test_server::{Place as Store, by, number, settings, until};

/// A link of our own making, and the memory behind it.
pub(crate) struct Liar {
    link: Link,
    region: Region,
}

impl Liar {
    pub(crate) fn call(store: &Store, endpoint: &Endpoint) -> Self {
        let memory = Memory::allocate(1 << 20, Pages::Plain).unwrap();
        let rights = Rights { read: true, write: true, atomic: false };
        let region = endpoint.register(&memory, rights).unwrap();
        let link = endpoint.connect(store.address, Duration::from_secs(20)).unwrap();
        Liar { link, region }
    }

    pub(crate) fn open(&mut self) {
        let receive_buffer = self.link.grant(&self.region).unwrap().to_bytes();
        self.send(
            &ClientHello::Store { session: None, receive_buffer, control_block: true }.to_bytes(),
        );
    }

    /// Says it, and looks whether it is still listened to.
    fn send(&mut self, message: &[u8]) {
        self.region.memory().write(SAID, message);
        let mut ops = VecDeque::from([
            Op::receive(1, self.region.slice(900_000..)),
            Op::send(2, self.region.slice(SAID..SAID + message.len())),
        ]);
        let mut done = Vec::new();
        while !ops.is_empty() && self.link.ended().is_none() {
            self.link.post(&mut ops);
            self.link.poll(&mut done);
        }
        wait(&mut self.link, &mut done, Duration::from_millis(2));
    }

    pub(crate) fn is_sent_away(&mut self) -> bool {
        let begun = std::time::Instant::now();
        let mut done = Vec::new();
        while self.link.ended().is_none() && begun.elapsed() < Duration::from_secs(20) {
            wait(&mut self.link, &mut done, Duration::from_millis(50));
        }
        self.link.ended().is_some()
    }
}

/// Request slots of batches that are not there, of any length, and answers with no place for a completion flag.
#[test]
fn notes_of_nothing_do_no_harm() {
    let store = Store::open(&settings(16 << 20), by(Class::Shm));
    let endpoint = Endpoint::new(by(Class::Shm)).unwrap();
    let mut honest = store.client(by(Class::Shm));
    honest.put(b"k", &[7; 3000], &PutOptions::default()).unwrap();
    let mut chance = Chance(12);
    for round in 0..60_u64 {
        let mut liar = Liar::call(&store, &endpoint);
        liar.open();
        // Somebody who speaks is watched.
        liar.send(&batch(300_000, 4096, &[get(b"k")]));
        for sequence in 1..=10_u64 {
            let slot = match round % 4 {
                // At the batch that was just sent, whose answers have a completion flag before them.
                0 => RequestSlot {
                    sequence: sequence as u16,
                    length: 24 + 65,
                    at: (SAID / 64) as u32,
                },
                1 => RequestSlot { sequence: sequence as u16, length: u16::MAX, at: u32::MAX },
                2 => RequestSlot { sequence: sequence as u16, length: 0, at: 0 },
                _ => RequestSlot::from_word(chance.below(u64::MAX)),
            };
            liar.region.memory().store(ControlBlock::slot(sequence), slot.to_word());
            let mut done = Vec::new();
            wait(&mut liar.link, &mut done, Duration::from_micros(300));
        }
        assert_eq!(honest.get(b"k").unwrap().map(|got| got.to_vec()), Some(vec![7; 3000]));
    }
    drop(honest);
    nothing_is_left(&store);
}

/// A client that reads in place and never says that it has read gets few pins, and gives them back when it goes.
#[test]
fn a_client_that_keeps_its_pinned_reads_gets_no_more() {
    let store = Store::open(&settings(64 << 20), by(Class::Shm));
    let endpoint = Endpoint::new(by(Class::Shm)).unwrap();
    let mut honest = store.client(by(Class::Shm));
    honest.put(b"k", &[7; 60_000], &PutOptions::default()).unwrap();
    let mut holder = Liar::call(&store, &endpoint);
    holder.open();
    let place = Place::Inline;
    let long =
        Request::Get { key: b"k", offset: 0, length: 60_000, place, keep: false, checksum: false };
    let head = BatchHead { in_place: true, count: 8, tag: 3, at: 300_008, capacity: 500_000 };
    let mut message = head.to_bytes().to_vec();
    (0..8).for_each(|_| long.put(&mut message));
    let memory = holder.region.memory().clone();
    let mut done = Vec::new();
    for sequence in 1..=100_u64 {
        // Whoever sends a message is watched for a while.
        while memory.load(ControlBlock::STORE) != ControlBlock::SET {
            assert_eq!(holder.link.ended(), None);
            holder.send(&message);
        }
        let at = (SAID / 64) as u32;
        let slot = RequestSlot { sequence: sequence as u16, length: message.len() as u16, at };
        memory.store(ControlBlock::slot(sequence), slot.to_word());
        let limit = Instant::now() + Duration::from_secs(60);
        while memory.load(300_000) != sequence {
            assert!(Instant::now() < limit, "no answer to {sequence}");
            holder.link.poll(&mut done);
            // A client that is not watched any more must send a message again.
            if memory.load(ControlBlock::STORE) != ControlBlock::SET {
                holder.send(&message);
            }
            std::thread::yield_now();
        }
    }
    let usage = store.engine.store.usage();
    assert!(usage.pins > 100 && usage.pins < 180, "8 MiB of 60,000 bytes each: {usage:?}");
    assert_eq!(honest.get(b"k").unwrap().map(|got| got.len()), Some(60_000));
    drop((holder, honest));
    nothing_is_left(&store);
}

/// Hundreds of long values into the same place, each with a checksum, in one short message: the worker does not make
/// them all before it looks at others.
#[test]
fn one_batch_is_not_answered_with_everything_it_asks_for() {
    let store = Store::open(&settings(256 << 20), by(Class::Tcp));
    let endpoint = Endpoint::new(by(Class::Tcp)).unwrap();
    let mut honest = store.client(by(Class::Tcp));
    let long = vec![7; 40 << 20];
    honest.put(b"k", &long, &PutOptions::default()).unwrap();
    let mut greedy = Liar::call(&store, &endpoint);
    greedy.open();
    let large = Memory::allocate(40 << 20, Pages::Plain).unwrap();
    let rights = Rights { read: true, write: true, atomic: false };
    let large = endpoint.register(&large, rights).unwrap();
    let region = greedy.link.grant(&large).unwrap().to_bytes();
    greedy.send(&Grant { number: 1, region }.to_bytes());
    let before = store.engine.counts().bytes_out.load(Ordering::Relaxed);
    let (place, length) = (Place::Region { region: 1, at: 0 }, 40 << 20);
    let get = Request::Get { key: b"k", offset: 0, length, place, keep: false, checksum: true };
    greedy.send(&batch(300_000, 100_000, &vec![get; 200]));
    until("it is answered", || {
        let mut done = Vec::new();
        wait(&mut greedy.link, &mut done, Duration::from_millis(20));
        store.engine.counts().bytes_out.load(Ordering::Relaxed) > before
    });
    let sent = store.engine.counts().bytes_out.load(Ordering::Relaxed) - before;
    assert_eq!(sent, 64 << 20, "the first, and as much as makes 64 MiB");
    drop((greedy, honest));
    nothing_is_left(&store);
}

/// Somebody who asks for long values again and again, and never polls: no answer of his is ever taken.
#[test]
fn who_asks_and_never_listens_stops_nobody() {
    for class in [Class::Shm, Class::Tcp] {
        let store = Store::open(&settings(64 << 20), by(class));
        let endpoint = Endpoint::new(by(class)).unwrap();
        let mut honest = store.client(by(class));
        honest.put(b"k", &[7; 500_000], &PutOptions::default()).unwrap();
        let mut deaf = Liar::call(&store, &endpoint);
        deaf.open();
        let place = Place::Inline;
        let long = Request::Get {
            key: b"k",
            offset: 0,
            length: 500_000,
            place,
            keep: true,
            checksum: false,
        };
        let message = batch(200_000, 600_000, &[long]);
        deaf.region.memory().write(SAID, &message);
        let mut ops = VecDeque::new();
        for token in 0..300 {
            ops.push_back(Op::send(token + 10, deaf.region.slice(SAID..SAID + message.len())));
            deaf.link.post(&mut ops);
        }
        for round in 0..100_u8 {
            honest.put(b"mine", &[round; 20_000], &PutOptions::default()).unwrap();
            let got = honest.get(b"mine").unwrap().unwrap();
            assert_eq!(got.to_vec(), [round; 20_000]);
        }
        drop((deaf, honest));
        nothing_is_left(&store);
    }
}

fn get(key: &[u8]) -> Request<'_> {
    let place = Place::Inline;
    Request::Get { key, offset: 0, length: 100, place, keep: true, checksum: true }
}

fn batch(at: u64, capacity: u64, requests: &[Request<'_>]) -> Vec<u8> {
    let head = BatchHead { in_place: false, count: requests.len() as u16, tag: 3, at, capacity };
    let mut bytes = head.to_bytes().to_vec();
    requests.iter().for_each(|request| request.put(&mut bytes));
    bytes
}

#[test]
fn what_cannot_be_is_sent_away() {
    let store = Store::open(&settings(16 << 20), by(Class::Tcp));
    let endpoint = Endpoint::new(by(Class::Tcp)).unwrap();
    let put = |length, at| Request::Put {
        key: b"k",
        length,
        source: Source::Region { region: 0, at },
        ttl: None,
        condition: Condition::Always,
        sequence: 1,
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("answers beyond the receive buffer", batch(1 << 20, 4096, &[get(b"k")])),
        ("answers that wrap around", batch(u64::MAX - 10, 4096, &[get(b"k")])),
        ("more than there is room for", batch(0, 148, &[get(b"k"), get(b"k")])),
        ("a key of no bytes", batch(0, 4096, &[get(b"")])),
        ("a key too long", batch(0, 4096, &[get(&[1; 5000])])),
        ("more than may be put at once", batch(0, 4096, &[put(1 << 40, 0), put(2 << 30, 0)])),
        ("the receive buffer granted again", Grant { number: 0, region: [0; 36] }.to_bytes()),
        ("a region of nobody's", Grant { number: 7, region: [1; 36] }.to_bytes()),
        ("taking back what was not given", Grant::revoke(9)),
        ("nothing", Vec::new()),
        ("noise", vec![0xa5; 3000]),
        ("too much", vec![1; 40_000]),
    ];
    for (what, message) in cases {
        let mut liar = Liar::call(&store, &endpoint);
        liar.open();
        if message.is_empty() {
            liar.send(&[0]);
        } else {
            liar.send(&message);
        }
        // A value longer than the store is refused by an answer.
        let refused = what == "more than may be put at once";
        assert!(refused || liar.is_sent_away(), "{what}");
    }
    let mut early = Liar::call(&store, &endpoint);
    early.send(&batch(0, 4096, &[get(b"k")]));
    assert!(early.is_sent_away(), "a batch before the opening");
    nothing_is_left(&store);
}

#[test]
fn mutated_batches_do_no_harm() {
    let store = Store::open(&settings(16 << 20), by(Class::Shm));
    let endpoint = Endpoint::new(by(Class::Shm)).unwrap();
    let mut honest = store.client(by(Class::Shm));
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
        Request::Piece { handle: 1, offset: 0, length: 300, source: Source::Inline(&[1; 300]) },
        Request::Read { handle: 1, offset: 5, length: 40, place: Place::Inline, checksum: true },
        Request::List { prefix: b"", cursor: 0, length: 10_000 },
    ];
    let good = batch(4096, 60_000, &requests);
    let mut chance = Chance(4711);
    let mut liar = Liar::call(&store, &endpoint);
    liar.open();
    for _ in 0..number("WIRELANE_TEST_MUTATIONS", 400) {
        if liar.link.ended().is_some() {
            liar = Liar::call(&store, &endpoint);
            liar.open();
        }
        let mut bad = good.clone();
        for _ in 0..=chance.below(3) {
            let at = chance.below(bad.len() as u64) as usize;
            bad[at] = chance.below(256) as u8;
        }
        bad.truncate(bad.len() - chance.below(3) as usize);
        liar.send(&bad);
        if chance.below(20) == 0 {
            assert_eq!(honest.get(b"k").unwrap().map(|got| got.to_vec()), Some(vec![7; 3000]));
        }
    }
    drop((liar, honest));
    nothing_is_left(&store);
}

/// Where the liar's messages lie.
const SAID: usize = 64 << 10;

fn nothing_is_left(store: &Store) {
    until("everything is back", || {
        let usage = store.engine.store.usage();
        [usage.pins, usage.reserved_bytes, usage.detached] == [0; 3] && store.connections() == 0
    });
}
