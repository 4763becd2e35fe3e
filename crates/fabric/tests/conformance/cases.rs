//! What every reliable lane must do. A case gets two connected ends.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::{Done, Failure, Memory, Op, OpKind, Pieces, RemoteRegion, Rights, Work, wait};

use crate::pair::{PATIENCE, Pair, bytes, connect, read};

/// About every boundary there is: nothing, a byte, words, inline sizes, MTUs, read-ahead, large.
const SIZES: [usize; 26] = [
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    255,
    256,
    257,
    511,
    512,
    513,
    1023,
    1024,
    1025,
    4031,
    4032,
    4033,
    4095,
    4096,
    4097,
    65_537,
    300_001,
    1 << 20,
];

const WRITE: Rights = Rights { write: true, ..Rights::NONE };
const READ: Rights = Rights { read: true, ..Rights::NONE };

pub(crate) fn a_write_of_every_size_arrives_and_touches_nothing_beside_it(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size, seed as u64);
        let from = pair.a.holding(&data);
        let (region, window) = pair.shared(size + 128, WRITE);
        let to = window.at(64);
        assert_eq!(pair.succeed(Op::write(1, from.slice(..size), to)), Done::Placed, "{size}");
        assert_eq!(read(&region, 64, size), data, "{size} bytes");
        assert_eq!(read(&region, 0, 64), [0; 64], "before {size} bytes");
        assert_eq!(read(&region, 64 + size, 64), [0; 64], "after {size} bytes");
    }
}

pub(crate) fn a_read_of_every_size_arrives_and_touches_nothing_beside_it(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size + 9, seed as u64);
        let (region, window) = pair.shared(size + 9, READ);
        region.memory().write(0, &data);
        let into = pair.a.region(size + 128, Rights::NONE);
        let op = Op::read(1, into.slice(64..64 + size), window.at(9));
        assert_eq!(pair.succeed(op), Done::Placed);
        assert_eq!(read(&into, 64, size), data[9..], "{size} bytes");
        assert_eq!(read(&into, 0, 64), [0; 64], "before {size} bytes");
        assert_eq!(read(&into, 64 + size, 64), [0; 64], "after {size} bytes");
    }
}

pub(crate) fn a_message_of_every_size_is_received(mut pair: Pair) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = bytes(size, seed as u64);
        let (from, into) = (pair.a.holding(&data), pair.b.region(size + 8, Rights::NONE));
        pair.b.post(Op::receive(7, into.slice(..)));
        assert_eq!(pair.succeed(Op::send(1, from.slice(..size))), Done::Placed);
        let received = pair.completion_at_b();
        assert_eq!(received.token, 7);
        assert_eq!(received.outcome, Ok(Done::Received { length: size, imm: None }));
        assert_eq!(read(&into, 0, size), data, "{size} bytes");
        assert_eq!(read(&into, size, 8), [0; 8], "after {size} bytes");
    }
}

pub(crate) fn every_alignment_is_written_and_read(mut pair: Pair) {
    let data = bytes(100, 5);
    let source = pair.a.holding(&data);
    let (region, window) = pair.shared(200, Rights::ALL);
    for skip in 0..9 {
        for place in 0..9 {
            region.memory().write(0, &[0; 200]);
            pair.succeed(Op::write(1, source.slice(skip..skip + 37), window.at(place)));
            assert_eq!(read(&region, place as usize, 37), data[skip..skip + 37]);
            let into = pair.a.region(64, Rights::NONE);
            pair.succeed(Op::read(2, into.slice(skip..skip + 37), window.at(place)));
            assert_eq!(read(&into, skip, 37), data[skip..skip + 37]);
        }
    }
}

pub(crate) fn the_largest_operation_arrives(mut pair: Pair) {
    let size = pair.largest;
    let from = pair.a.region(size, Rights::NONE);
    let marks: Vec<usize> = (0..64).map(|n| n * (size / 64)).chain([size - 8]).collect();
    for mark in &marks {
        from.memory().write(*mark, &bytes(8, *mark as u64));
    }
    let (region, window) = pair.shared(size, Rights::ALL);
    pair.succeed(Op::write(1, from.slice(..), window.at(0)));
    for mark in &marks {
        assert_eq!(read(&region, *mark, 8), bytes(8, *mark as u64));
    }
    let back = pair.a.region(size, Rights::NONE);
    pair.succeed(Op::read(2, back.slice(..), window.at(0)));
    for mark in &marks {
        assert_eq!(read(&back, *mark, 8), bytes(8, *mark as u64));
    }
}

pub(crate) fn a_number_arrives_after_the_bytes_of_its_write(mut pair: Pair) {
    for size in [0, 1, 64, 5000, 1 << 20] {
        let data = bytes(size, 3);
        let from = pair.a.holding(&data);
        let (region, window) = pair.shared(size + 1, WRITE);
        let room = pair.b.region(8, Rights::NONE);
        pair.b.post(Op::receive(9, room.slice(..0)));
        pair.a.post(Op::write_imm(1, from.slice(..size), window.at(1), 0xdead_beef));
        let received = pair.completion_at_b();
        let imm = Some(0xdead_beef);
        assert_eq!(received.outcome, Ok(Done::Received { length: size, imm }));
        assert_eq!(read(&region, 1, size), data);
        assert_eq!(pair.completion().outcome, Ok(Done::Placed));
    }
}

pub(crate) fn a_message_carries_a_number(mut pair: Pair) {
    let (from, into) = (pair.a.holding(b"hello"), pair.b.region(16, Rights::NONE));
    pair.b.post(Op::receive(2, into.slice(..)));
    let work = Work::Send { from: from.slice(..).into(), imm: Some(7) };
    pair.a.post(Op { token: 1, work });
    let received = pair.completion_at_b();
    assert_eq!(received.outcome, Ok(Done::Received { length: 5, imm: Some(7) }));
    assert_eq!(read(&into, 0, 5), *b"hello");
    assert_eq!(pair.completion().outcome, Ok(Done::Placed));
}

pub(crate) fn pieces_are_gathered_and_scattered_in_order(mut pair: Pair) {
    let data = bytes(10_000, 11);
    let cuts = [0, 1, 1, 100, 5000, 9999, 10_000];
    let source = pair.a.holding(&data);
    let pieces = |region: &fabric::Region| {
        let cut = |pair: &[usize]| region.slice(pair[0]..pair[1]);
        Pieces::Many(cuts.windows(2).map(cut).collect())
    };
    let (region, window) = pair.shared(10_000, Rights::ALL);
    pair.succeed(Op::write(1, pieces(&source), window.at(0)));
    assert_eq!(read(&region, 0, 10_000), data);

    let into = pair.a.region(10_000, Rights::NONE);
    pair.succeed(Op::read(2, pieces(&into), window.at(0)));
    assert_eq!(read(&into, 0, 10_000), data);

    let room = pair.b.region(10_000, Rights::NONE);
    pair.b.post(Op::receive(3, pieces(&room)));
    pair.succeed(Op::send(4, pieces(&source)));
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length: 10_000, imm: None }));
    assert_eq!(read(&room, 0, 10_000), data);
}

pub(crate) fn numbers_are_added_and_swapped_as_one_step(mut pair: Pair) {
    let (region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(8, Rights::NONE);
    region.memory().store(16, 40);
    let add = |token, add| {
        let work = Work::FetchAdd { old: old.slice(..), at: window.at(16), add };
        Op { token, work }
    };
    assert_eq!(pair.succeed(add(1, 2)), Done::Old(40));
    assert_eq!((region.memory().load(16), old.memory().load(0)), (42, 40));
    assert_eq!(pair.succeed(add(2, u64::MAX)), Done::Old(42));
    assert_eq!(region.memory().load(16), 41);
    let swap = |expect, new| {
        let work = Work::CompareSwap { old: old.slice(..), at: window.at(16), expect, new };
        Op { token: 3, work }
    };
    assert_eq!(pair.succeed(swap(40, 1)), Done::Old(41));
    assert_eq!(region.memory().load(16), 41, "it was not as expected");
    assert_eq!(pair.succeed(swap(41, 1)), Done::Old(41));
    assert_eq!((region.memory().load(16), old.memory().load(0)), (1, 41));
}

pub(crate) fn a_number_across_words_is_refused(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(8, Rights::NONE);
    let work = Work::FetchAdd { old: old.slice(..), at: window.at(12), add: 1 };
    let outcome = pair.run(Op { token: 1, work }).outcome;
    // By the lane where it knows the peer's address, else by the peer.
    assert!(matches!(outcome, Err(Failure::Access | Failure::Unsupported)), "{outcome:?}");
}

pub(crate) fn every_operation_of_a_batch_comes_back_once(mut pair: Pair) {
    let count = pair.a.lane.caps().depth as u64;
    let source = pair.a.holding(&bytes(8 * count as usize, 1));
    let (region, window) = pair.shared(8 * count as usize, WRITE);
    let write = |n: u64| {
        let at = 8 * n as usize;
        Op::write(n, source.slice(at..at + 8), window.at(at as u64))
    };
    pair.a.post_all((0..count).map(write).collect());
    let mut seen = HashSet::new();
    while seen.len() < count as usize {
        let completion = pair.completion();
        assert_eq!(completion.outcome, Ok(Done::Placed));
        assert!(seen.insert(completion.token), "{} came back twice", completion.token);
    }
    assert_eq!(region.slice(..).to_vec(), source.slice(..).to_vec());
    for _ in 0..50 {
        pair.turn();
    }
    assert!(pair.a.done().is_empty(), "nothing comes back twice");
}

pub(crate) fn what_finds_no_room_waits_and_goes_later(mut pair: Pair) {
    let depth = pair.a.lane.caps().depth;
    let source = pair.a.holding(&bytes(64, 1));
    let (_region, window) = pair.shared(64, Rights::ALL);
    let into = pair.a.region(64, Rights::NONE);
    let op = |n: usize| match n % 2 {
        0 => Op::write(n as u64, source.slice(..), window.at(0)),
        _ => Op::read(n as u64, into.slice(..), window.at(0)),
    };
    let all = 3 * depth;
    let mut waiting: VecDeque<Op> = (0..all).map(op).collect();
    let mut seen = HashSet::new();
    let limit = Instant::now() + PATIENCE;
    while seen.len() < all {
        let before = waiting.len();
        let taken = pair.a.lane.post(&mut waiting);
        assert_eq!(before - waiting.len(), taken);
        pair.turn();
        for completion in pair.a.done().drain(..) {
            completion.outcome.expect("it succeeds");
            assert!(seen.insert(completion.token), "{} came back twice", completion.token);
        }
        assert!(Instant::now() < limit, "{} of {all} came back", seen.len());
    }
    assert!(waiting.is_empty());
}

pub(crate) fn receives_have_a_limit_too(mut pair: Pair) {
    let room = pair.b.region(64, Rights::NONE);
    let receives = pair.b.lane.caps().receives;
    let mut ops: VecDeque<Op> =
        (0..receives as u64 + 10).map(|n| Op::receive(n, room.slice(..))).collect();
    assert_eq!(pair.b.lane.post(&mut ops), receives);
    assert_eq!(ops.len(), 10);
    let from = pair.a.holding(b"one");
    pair.succeed(Op::send(1, from.slice(..)));
    assert_eq!(pair.completion_at_b().token, 0);
    assert_eq!(pair.b.lane.post(&mut ops), 1, "one made room for one");
}

pub(crate) fn a_late_receiver_gets_its_message(mut pair: Pair) {
    let (from, into) = (pair.a.holding(b"early"), pair.b.region(8, Rights::NONE));
    pair.a.post(Op::send(1, from.slice(..)));
    let late = (pair.clock)() + Duration::from_millis(100);
    while (pair.clock)() < late {
        pair.turn();
        assert!(pair.a.done().is_empty(), "there was no receive");
    }
    pair.b.post(Op::receive(2, into.slice(..)));
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length: 5, imm: None }));
    assert_eq!(pair.completion().outcome, Ok(Done::Placed));
    assert_eq!(read(&into, 0, 5), *b"early");
}

pub(crate) fn a_receiver_that_never_comes_is_not_waited_for_forever(mut pair: Pair) {
    let from = pair.a.holding(b"nobody");
    pair.a.post(Op::send(1, from.slice(..)));
    pair.a.post(Op::send(2, from.slice(..)));
    // Either may have come first.
    let outcomes = [pair.completion_of(1), pair.completion_of(2)];
    assert!(outcomes.contains(&Err(Failure::NotReady)), "{outcomes:?}");
    assert!(outcomes.contains(&Err(Failure::Flushed)), "{outcomes:?}");
}

pub(crate) fn a_message_longer_than_its_receive_fails_at_both_ends(mut pair: Pair) {
    let (from, into) = (pair.a.holding(&bytes(100, 1)), pair.b.region(128, Rights::NONE));
    pair.b.post(Op::receive(2, into.slice(..99)));
    pair.a.post(Op::send(1, from.slice(..)));
    assert_eq!(pair.completion_of(1), Err(Failure::TooLong));
    assert_eq!(pair.completion_at_b().outcome, Err(Failure::TooLong));
    assert_eq!(read(&into, 99, 29), [0; 29], "nothing beyond the receive");
    pair.assert_dead();
}

pub(crate) fn a_wrong_key_is_refused_and_ends_the_lane(mut pair: Pair) {
    let (region, _) = pair.shared(64, Rights::ALL);
    let remote = pair.b.lane.grant(&region).expect("granted");
    let mut forged = remote.to_bytes();
    // The last bytes of the key are random, or zero where keys are short.
    forged[22] ^= 0x40;
    let forged = RemoteRegion::from_bytes(&forged).expect("well formed");
    let window = match pair.a.lane.import(&forged) {
        Ok(window) => window,
        // Where regions are mapped, a wrong one is known at once.
        Err(error) => {
            assert_eq!((error.kind(), pair.a.lane.caps().lane), (fabric::Kind::Denied, "shm"));
            return;
        }
    };
    let from = pair.a.holding(&[1; 8]);
    assert_eq!(pair.run(Op::write(1, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 0, 64), [0; 64]);
    pair.assert_dead();
}

pub(crate) fn beyond_the_end_is_refused(mut pair: Pair) {
    let (region, window) = pair.shared(4096, Rights::ALL);
    let from = pair.a.holding(&[1; 8]);
    let write = Op::write(1, from.slice(..), window.at(4092));
    assert_eq!(pair.run(write).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 4088, 8), [0; 8]);
    pair.assert_dead();
}

pub(crate) fn far_beyond_the_end_is_refused_too(mut pair: Pair) {
    let (_region, window) = pair.shared(4096, Rights::ALL);
    let into = pair.a.region(8, Rights::NONE);
    let read = Op::read(1, into.slice(..), window.at(u64::MAX - 3));
    assert_eq!(pair.run(read).outcome, Err(Failure::Access));
}

pub(crate) fn writing_needs_the_right(mut pair: Pair) {
    let (region, window) = pair.shared(64, READ);
    let from = pair.a.holding(&[1; 8]);
    assert_eq!(pair.run(Op::write(1, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 0, 8), [0; 8]);
    assert_eq!(pair.a.lane.stats().ended(), Some(Failure::Access), "the lane says why it ended");
}

pub(crate) fn reading_needs_the_right(mut pair: Pair) {
    let (region, window) = pair.shared(64, WRITE);
    region.memory().write(0, b"a secret");
    let into = pair.a.region(8, Rights::NONE);
    assert_eq!(pair.run(Op::read(1, into.slice(..), window.at(0))).outcome, Err(Failure::Access));
    assert_eq!(read(&into, 0, 8), [0; 8]);
}

pub(crate) fn adding_needs_the_right(mut pair: Pair) {
    let (region, window) = pair.shared(64, Rights { atomic: false, ..Rights::ALL });
    let old = pair.a.region(8, Rights::NONE);
    let work = Work::FetchAdd { old: old.slice(..), at: window.at(0), add: 1 };
    assert_eq!(pair.run(Op { token: 1, work }).outcome, Err(Failure::Access));
    assert_eq!(region.memory().load(0), 0);
}

pub(crate) fn a_region_dropped_by_its_owner_is_refused(mut pair: Pair) {
    let (region, window) = pair.shared(64, Rights::ALL);
    let from = pair.a.holding(&[1; 8]);
    pair.succeed(Op::write(1, from.slice(..), window.at(0)));
    drop(region);
    assert_eq!(pair.run(Op::write(2, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
}

pub(crate) fn memory_in_flight_outlives_its_owners_handles(mut pair: Pair) {
    let data = bytes(1 << 20, 9);
    let (region, window) = pair.shared(1 << 20, WRITE);
    let from = pair.a.holding(&data);
    pair.a.post(Op::write(1, from.slice(..), window.at(0)));
    drop((from, window));
    let completion = pair.completion();
    assert_eq!(completion.outcome, Ok(Done::Placed));
    let Work::Write { from, .. } = completion.work else { panic!("another operation") };
    assert_eq!(from.as_slice()[0].to_vec(), data, "the memory comes back");
    assert_eq!(region.slice(..).to_vec(), data);
}

pub(crate) fn lent_memory_is_moved_too(mut pair: Pair) {
    let data = bytes(100_001, 4);
    let lent = Memory::lend(data.clone().into_boxed_slice()).expect("lent");
    let from = pair.a.fabric.register(&lent, Rights::NONE).expect("registered");
    let room = Memory::lend(vec![0; 100_009].into_boxed_slice()).expect("lent");
    let region = pair.b.fabric.register(&room, Rights::ALL).expect("registered");
    let remote = pair.b.lane.grant(&region).expect("granted");
    let window = pair.a.lane.import(&remote).expect("imported");
    pair.succeed(Op::write(1, from.slice(..), window.at(3)));
    assert_eq!(read(&region, 3, 100_001), data);
    let into = pair.a.region(100_009, Rights::NONE);
    pair.succeed(Op::read(2, into.slice(..), window.at(0)));
    assert_eq!(into.slice(..).to_vec(), region.slice(..).to_vec());
    drop((from, region, window));
    pair.turn();
    assert_eq!(*lent.take_back().expect("nobody else has it"), data);
}

pub(crate) fn a_window_of_another_lane_is_not_taken_and_the_lane_goes_on(mut pair: Pair) {
    let (a, b) = connect(&*pair.a.fabric, &*pair.b.fabric);
    let region = pair.b.region(64, Rights::ALL);
    let (mut a, mut b) = (a, b);
    let window = a.import(&b.grant(&region).expect("granted")).expect("imported");
    let from = pair.a.holding(&[1; 8]);
    let outcome = pair.run(Op::write(1, from.slice(..), window.at(0))).outcome;
    assert_eq!(outcome, Err(Failure::Unsupported));
    let (_region, window) = pair.shared(64, Rights::ALL);
    pair.succeed(Op::write(2, from.slice(..), window.at(0)));
}

pub(crate) fn a_place_for_the_old_number_must_be_a_word(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(32, Rights::NONE);
    for place in [old.slice(..4), old.slice(4..12), old.slice(0..16)] {
        let work = Work::FetchAdd { old: place, at: window.at(0), add: 1 };
        assert_eq!(pair.run(Op { token: 1, work }).outcome, Err(Failure::Unsupported));
    }
    let work = Work::FetchAdd { old: old.slice(8..16), at: window.at(0), add: 1 };
    assert_eq!(pair.succeed(Op { token: 1, work }), Done::Old(0));
}

pub(crate) fn a_dead_peer_is_noticed_and_everything_comes_back(mut pair: Pair) {
    let (_region, window) = pair.shared(1 << 20, Rights::ALL);
    let from = pair.a.holding(&bytes(1 << 20, 1));
    let room = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(1, room.slice(..)));
    let (_, other) = connect(&*pair.a.fabric, &*pair.b.fabric);
    drop(std::mem::replace(&mut pair.b.lane, other));
    // What a mapping still allows may succeed; what needs the peer cannot.
    pair.a.post(Op::send(2, from.slice(..)));
    pair.a.post(Op::write_imm(3, from.slice(..), window.at(0), 1));
    for token in [2, 3] {
        let outcome = pair.completion_of(token);
        assert!(
            matches!(outcome, Err(Failure::PeerGone | Failure::Flushed | Failure::Access)),
            "{outcome:?}"
        );
    }
    if pair.receives_end_with_lane {
        let outcome = pair.completion_of(1);
        assert!(matches!(outcome, Err(Failure::PeerGone | Failure::Flushed)), "{outcome:?}");
    }
}

pub(crate) fn a_closed_lane_gives_everything_back(mut pair: Pair) {
    let (_region, window) = pair.shared(1 << 20, Rights::ALL);
    let from = pair.a.holding(&bytes(1 << 20, 1));
    let room = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(0, room.slice(..)));
    let into = pair.a.region(1 << 20, Rights::NONE);
    for n in 0..8 {
        pair.a.post(Op::write(1 + 3 * n, from.slice(..), window.at(0)));
        pair.a.post(Op::read(2 + 3 * n, into.slice(..), window.at(0)));
        pair.a.post(Op::send(3 + 3 * n, from.slice(..8)));
    }
    pair.a.lane.close();
    assert_eq!(pair.a.lane.stats().ended(), Some(Failure::Flushed));
    let mut back = HashSet::new();
    let all = if pair.receives_end_with_lane { 25 } else { 24 };
    pair.until("everything", |pair| pair.a.count() >= all);
    for completion in pair.a.done().drain(..) {
        assert!(matches!(completion.outcome, Ok(_) | Err(Failure::Flushed)), "{completion:?}");
        assert!(back.insert(completion.token), "{} came back twice", completion.token);
    }
    assert_eq!(back.len(), all);
    pair.a.post(Op::send(100, from.slice(..8)));
    assert_eq!(pair.completion_of(100), Err(Failure::Flushed));
}

pub(crate) fn a_lane_dropped_with_operations_in_flight_lets_go_of_memory(mut pair: Pair) {
    let (region, window) = pair.shared(1 << 20, Rights::ALL);
    let lent = Memory::lend(bytes(1 << 20, 1).into_boxed_slice()).expect("lent");
    let from = pair.a.fabric.register(&lent, Rights::NONE).expect("registered");
    let room = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(0, room.slice(..)));
    for n in 0..8 {
        pair.a.post(Op::write(n, from.slice(..), window.at(0)));
    }
    let (other, _) = connect(&*pair.a.fabric, &*pair.b.fabric);
    drop(std::mem::replace(&mut pair.a.lane, other));
    pair.a.done().clear();
    drop((from, window));
    lent.take_back().expect("nobody holds it any more");
    // The other end goes on until it notices, and its memory is its own.
    pair.turn();
    region.memory().store(0, 5);
    assert_eq!(region.memory().load(0), 5);
}

pub(crate) fn one_who_sleeps_is_woken(mut pair: Pair) {
    let into = pair.b.region(8, Rights::NONE);
    let from = pair.a.holding(b"wake up!");
    pair.b.post(Op::receive(1, into.slice(..)));
    // Let everything that is on its way arrive, so that the sleep below is one.
    for _ in 0..100 {
        pair.turn();
    }
    let Pair { mut a, mut b, mut step, .. } = pair;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                step();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let sleeper = scope.spawn(move || {
            let mut done = Vec::new();
            wait(&mut *b.lane, &mut done, PATIENCE);
            // What the sender waits for is due now, or when this end sleeps again.
            b.lane.arm();
            (b, done)
        });
        std::thread::sleep(Duration::from_millis(200));
        a.post(Op::send(2, from.slice(..)));
        let mut done = Vec::new();
        wait(&mut *a.lane, &mut done, PATIENCE);
        let placed = done.pop().map(|done| done.outcome);
        let (_b, done) = sleeper.join().expect("no panic");
        over.store(true, Ordering::Relaxed);
        assert_eq!(placed, Some(Ok(Done::Placed)));
        assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: None }));
    });
    assert_eq!(read(&into, 0, 8), *b"wake up!");
}

pub(crate) fn both_ends_talk_at_once_and_nothing_is_mixed_up(mut pair: Pair) {
    const MESSAGES: u64 = 300;
    let (from_b, window_a) = pair.shared(1 << 16, Rights::ALL);
    let region_a = pair.a.region(1 << 16, Rights::ALL);
    let remote = pair.a.lane.grant(&region_a).expect("granted");
    let window_b = pair.b.lane.import(&remote).expect("imported");
    let rooms = [pair.a.region(1 << 16, Rights::NONE), pair.b.region(1 << 16, Rights::NONE)];
    let mut sums = [0u64; 2];
    let mut sent = [0u64; 2];
    let mut posted = [0u64; 2];
    let mut placed = [0u64; 2];
    let limit = Instant::now() + PATIENCE;
    while placed != [2 * MESSAGES; 2] || sums != [(0..MESSAGES).sum(); 2] {
        assert!(Instant::now() < limit, "placed {placed:?}, sums {sums:?}");
        for end in 0..2 {
            let (us, window) = match end {
                0 => (&mut pair.a, &window_a),
                _ => (&mut pair.b, &window_b),
            };
            while posted[end] < MESSAGES && posted[end] < sums_count(&placed) + 16 {
                let at = (posted[end] as usize % 1024) * 64;
                us.post(Op::receive(posted[end], rooms[end].slice(at..at + 64)));
                posted[end] += 1;
            }
            if sent[end] < MESSAGES {
                let n = sent[end];
                let data = us.holding(&n.to_le_bytes());
                us.post(Op::send(1 << 32 | n, data.slice(..)));
                us.post(Op::write(2 << 32 | n, data.slice(..), window.at(n % 512 * 8)));
                sent[end] += 1;
            }
        }
        pair.turn();
        for end in 0..2 {
            let us = if end == 0 { &mut pair.a } else { &mut pair.b };
            for completion in us.done().drain(..) {
                match completion.outcome.expect("it succeeds") {
                    Done::Received { length, .. } => {
                        assert_eq!(length, 8);
                        let Work::Receive { into } = completion.work else { panic!("no receive") };
                        let number = into.as_slice()[0].to_vec()[..8].try_into().expect("eight");
                        sums[end] += u64::from_le_bytes(number);
                    }
                    _ => placed[end] += 1,
                }
            }
        }
    }
    for n in 0..MESSAGES.min(512) {
        assert_eq!(from_b.memory().load(n as usize % 512 * 8), n);
        assert_eq!(region_a.memory().load(n as usize % 512 * 8), n);
    }
}

fn sums_count(placed: &[u64; 2]) -> u64 {
    placed.iter().sum::<u64>() / 2
}

pub(crate) fn everything_is_counted(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let from = pair.a.holding(&[1; 48]);
    let room = pair.b.region(64, Rights::NONE);
    pair.b.post(Op::receive(1, room.slice(..)));
    for n in 0..100 {
        pair.succeed(Op::write(n, from.slice(..), window.at(0)));
    }
    pair.succeed(Op::read(1, from.slice(..8), window.at(0)));
    pair.succeed(Op::send(2, from.slice(..5)));
    pair.completion_at_b();
    let stats = pair.a.lane.stats();
    assert_eq!((stats.operations(OpKind::Write), stats.bytes(OpKind::Write)), (100, 4800));
    assert_eq!((stats.operations(OpKind::Read), stats.bytes(OpKind::Read)), (1, 8));
    assert_eq!((stats.operations(OpKind::Send), stats.bytes(OpKind::Send)), (1, 5));
    assert!(stats.latency().count() >= 3, "one in 32 is timed");
    let stats = pair.b.lane.stats().clone();
    assert_eq!((stats.operations(OpKind::Receive), stats.bytes(OpKind::Receive)), (1, 5));
    assert_eq!(pair.a.lane.stats().failures(Failure::Access), 0);
    pair.run(Op::write(9, from.slice(..), window.at(60)));
    assert_eq!(pair.a.lane.stats().failures(Failure::Access), 1);
}

pub(crate) fn a_region_of_another_kind_of_lane_is_not_imported(mut pair: Pair) {
    let (region, _) = pair.shared(64, Rights::ALL);
    let mut bytes = pair.b.lane.grant(&region).expect("granted").to_bytes();
    bytes[1] = if bytes[1] == 1 { 3 } else { 1 };
    let other = RemoteRegion::from_bytes(&bytes).expect("well formed");
    let error = pair.a.lane.import(&other).expect_err("another kind");
    assert_eq!(error.kind(), fabric::Kind::Misuse, "{error}");
}
