//! Cases for every reliable lane: queueing, waiting, completion and ends.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::{Done, Failure, Memory, Op, OpKind, Rights, Work, wait};

use crate::pair::{Pair, TIMEOUT, bytes, connect, read, step_until};

const WRITE: Rights = Rights { write: true, ..Rights::NONE };

pub(crate) fn every_operation_of_a_batch_is_returned_once(mut pair: Pair) {
    let count = pair.a.lane.caps().depth as u64;
    let source = pair.a.region_with(&bytes(8 * count as usize, 1));
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
        assert!(seen.insert(completion.op_id), "{} received_before back twice", completion.op_id);
    }
    assert_eq!(region.slice(..).to_vec(), source.slice(..).to_vec());
    for _ in 0..50 {
        pair.poll_both();
    }
    assert!(pair.a.done().is_empty(), "an operation was returned twice");
}

pub(crate) fn operations_that_do_not_fit_are_posted_later(mut pair: Pair) {
    let depth = pair.a.lane.caps().depth;
    let source = pair.a.region_with(&bytes(64, 1));
    let (_region, window) = pair.shared(64, Rights::ALL);
    let into = pair.a.region(64, Rights::NONE);
    let op = |n: usize| match n % 2 {
        0 => Op::write(n as u64, source.slice(..), window.at(0)),
        _ => Op::read(n as u64, into.slice(..), window.at(0)),
    };
    let all = 3 * depth;
    let mut waiting: VecDeque<Op> = (0..all).map(op).collect();
    let mut seen = HashSet::new();
    let limit = Instant::now() + TIMEOUT;
    while seen.len() < all {
        let before = waiting.len();
        let taken = pair.a.lane.post(&mut waiting);
        assert_eq!(before - waiting.len(), taken);
        pair.poll_both();
        for completion in pair.a.done().drain(..) {
            completion.outcome.expect("it succeeds");
            assert!(
                seen.insert(completion.op_id),
                "{} received_before back twice",
                completion.op_id
            );
        }
        assert!(Instant::now() < limit, "{} of {all} were returned", seen.len());
    }
    assert!(waiting.is_empty());
}

pub(crate) fn receives_have_a_limit(mut pair: Pair) {
    let buffer = pair.b.region(64, Rights::NONE);
    let receives = pair.b.lane.caps().receives;
    let mut ops: VecDeque<Op> =
        (0..receives as u64 + 10).map(|n| Op::receive(n, buffer.slice(..))).collect();
    assert_eq!(pair.b.lane.post(&mut ops), receives);
    assert_eq!(ops.len(), 10);
    let from = pair.a.region_with(b"one");
    pair.succeed(Op::send(1, from.slice(..)));
    assert_eq!(pair.completion_at_b().op_id, 0);
    assert_eq!(pair.b.lane.post(&mut ops), 1, "a completed receive frees one slot");
}

pub(crate) fn a_late_receiver_gets_its_message(mut pair: Pair) {
    let (from, into) = (pair.a.region_with(b"early"), pair.b.region(8, Rights::NONE));
    pair.a.post(Op::send(1, from.slice(..)));
    let late = (pair.clock)() + Duration::from_millis(100);
    while (pair.clock)() < late {
        pair.poll_both();
        assert!(pair.keeps_messages || pair.a.done().is_empty(), "there was no receive");
    }
    pair.b.post(Op::receive(2, into.slice(..)));
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length: 5, imm: None }));
    assert_eq!(pair.completion().outcome, Ok(Done::Placed));
    assert_eq!(read(&into, 0, 5), *b"early");
}

pub(crate) fn a_dead_peer_is_detected_and_all_operations_are_returned(mut pair: Pair) {
    let (_region, window) = pair.shared(1 << 20, Rights::ALL);
    let from = pair.a.region_with(&bytes(1 << 20, 1));
    let buffer = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(1, buffer.slice(..)));
    let (_, other) = connect(&*pair.a.fabric, &*pair.b.fabric);
    drop(std::mem::replace(&mut pair.b.lane, other));
    // Operations through a mapping may still succeed; those that need the peer cannot.
    pair.a.post(Op::send(2, from.slice(..)));
    pair.a.post(Op::write_imm(3, from.slice(..), window.at(0), 1));
    for op_id in [2, 3] {
        let outcome = pair.completion_of(op_id);
        let expected = match outcome {
            Err(Failure::PeerGone | Failure::Flushed | Failure::Access) => true,
            Err(Failure::Unknown) => pair.is_link,
            _ => false,
        };
        assert!(expected, "{outcome:?}");
    }
    let outcome = pair.completion_of(1);
    assert!(matches!(outcome, Err(Failure::PeerGone | Failure::Flushed)), "{outcome:?}");
}

pub(crate) fn a_closed_lane_returns_all_operations(mut pair: Pair) {
    let (_region, window) = pair.shared(1 << 20, Rights::ALL);
    let from = pair.a.region_with(&bytes(1 << 20, 1));
    let buffer = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(0, buffer.slice(..)));
    let into = pair.a.region(1 << 20, Rights::NONE);
    for n in 0..8 {
        pair.a.post(Op::write(1 + 3 * n, from.slice(..), window.at(0)));
        pair.a.post(Op::read(2 + 3 * n, into.slice(..), window.at(0)));
        pair.a.post(Op::send(3 + 3 * n, from.slice(..8)));
    }
    pair.a.lane.close();
    assert_eq!(pair.a.lane.stats().ended(), Some(Failure::Flushed));
    let mut returned = HashSet::new();
    pair.until("everything", |pair| pair.a.count() >= 25);
    for completion in pair.a.done().drain(..) {
        assert!(matches!(completion.outcome, Ok(_) | Err(Failure::Flushed)), "{completion:?}");
        assert!(
            returned.insert(completion.op_id),
            "{} received_before back twice",
            completion.op_id
        );
    }
    assert_eq!(returned.len(), 25);
    pair.a.post(Op::send(100, from.slice(..8)));
    assert_eq!(pair.completion_of(100), Err(Failure::Flushed));
}

pub(crate) fn a_lane_dropped_with_operations_in_flight_releases_memory(mut pair: Pair) {
    let (region, window) = pair.shared(1 << 20, Rights::ALL);
    let private = Memory::from_boxed(bytes(1 << 20, 1).into_boxed_slice()).expect("memory");
    let from = pair.a.fabric.register(&private, Rights::NONE).expect("registered");
    let buffer = pair.a.region(8, Rights::NONE);
    pair.a.post(Op::receive(0, buffer.slice(..)));
    for n in 0..8 {
        pair.a.post(Op::write(n, from.slice(..), window.at(0)));
    }
    let (other, _) = connect(&*pair.a.fabric, &*pair.b.fabric);
    drop(std::mem::replace(&mut pair.a.lane, other));
    pair.a.done().clear();
    drop((from, window));
    private.into_boxed().expect("no other owner");
    // The other end continues until it notices, and its memory is unaffected.
    pair.poll_both();
    region.memory().store(0, 5);
    assert_eq!(region.memory().load(0), 5);
}

pub(crate) fn a_sleeping_end_is_woken(mut pair: Pair) {
    let into = pair.b.region(8, Rights::NONE);
    let from = pair.a.region_with(b"wake up!");
    pair.b.post(Op::receive(1, into.slice(..)));
    // Wait until everything in flight has arrived, so that the end below does sleep.
    for _ in 0..100 {
        pair.poll_both();
    }
    let Pair { mut a, mut b, mut step, .. } = pair;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| step_until(&mut *step, &ended));
        let sleeper = scope.spawn(move || {
            let mut done = Vec::new();
            wait(&mut *b.lane, &mut done, TIMEOUT);
            // The acknowledgement for the sender is sent now, or when this end sleeps again.
            b.lane.arm();
            (b, done)
        });
        std::thread::sleep(Duration::from_millis(200));
        a.post(Op::send(2, from.slice(..)));
        let mut done = Vec::new();
        wait(&mut *a.lane, &mut done, TIMEOUT);
        let placed = done.pop().map(|done| done.outcome);
        let (_b, done) = sleeper.join().expect("no panic");
        ended.store(true, Ordering::Relaxed);
        assert_eq!(placed, Some(Ok(Done::Placed)));
        assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: None }));
    });
    assert_eq!(read(&into, 0, 8), *b"wake up!");
}

pub(crate) fn both_ends_send_at_the_same_time(mut pair: Pair) {
    const MESSAGES: u64 = 300;
    let (from_b, window_a) = pair.shared(1 << 16, Rights::ALL);
    let region_a = pair.a.region(1 << 16, Rights::ALL);
    let remote = pair.a.lane.grant(&region_a).expect("granted");
    let window_b = pair.b.lane.import(&remote).expect("imported");
    let buffers = [pair.a.region(1 << 16, Rights::NONE), pair.b.region(1 << 16, Rights::NONE)];
    let mut sums = [0u64; 2];
    let mut sent = [0u64; 2];
    let mut posted = [0u64; 2];
    let mut placed = [0u64; 2];
    let limit = Instant::now() + TIMEOUT;
    while placed != [2 * MESSAGES; 2] || sums != [(0..MESSAGES).sum(); 2] {
        assert!(Instant::now() < limit, "placed {placed:?}, sums {sums:?}");
        for end in 0..2 {
            let (us, window) = match end {
                0 => (&mut pair.a, &window_a),
                _ => (&mut pair.b, &window_b),
            };
            while posted[end] < MESSAGES && posted[end] < sums_count(&placed) + 16 {
                let at = (posted[end] as usize % 1024) * 64;
                us.post(Op::receive(posted[end], buffers[end].slice(at..at + 64)));
                posted[end] += 1;
            }
            if sent[end] < MESSAGES {
                let n = sent[end];
                let data = us.region_with(&n.to_le_bytes());
                us.post(Op::send(1 << 32 | n, data.slice(..)));
                us.post(Op::write(2 << 32 | n, data.slice(..), window.at(n % 512 * 8)));
                sent[end] += 1;
            }
        }
        pair.poll_both();
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

pub(crate) fn operations_are_counted(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let from = pair.a.region_with(&[1; 48]);
    let buffer = pair.b.region(64, Rights::NONE);
    pair.b.post(Op::receive(1, buffer.slice(..)));
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
    // A link times one operation at a time, and here all are posted together.
    let min_samples = if pair.is_link { 1 } else { 3 };
    assert!(stats.latency().count() >= min_samples, "one in 32 is timed");
    let stats = pair.b.lane.stats().clone();
    assert_eq!((stats.operations(OpKind::Receive), stats.bytes(OpKind::Receive)), (1, 5));
    assert!([0, 101].contains(&stats.peer_operations()), "what this end executed for its peer");
    assert_eq!(pair.a.lane.stats().failures(Failure::Access), 0);
    pair.run(Op::write(9, from.slice(..), window.at(60)));
    assert_eq!(pair.a.lane.stats().failures(Failure::Access), 1);
}
