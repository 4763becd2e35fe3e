//! Cases for every datagram lane: received messages are complete, and other operations are unsupported.

use std::time::{Duration, Instant};

use fabric::{Done, Failure, Op, OpKind, Rights, Slices, Work, wait};

use crate::pair::{Pair, TIMEOUT, bytes, read};

pub(crate) fn a_datagram_of_every_size_is_received(mut pair: Pair) {
    let max = pair.a.lane.caps().max_message;
    for size in [0, 1, 7, 8, 64, 255, 256, 257, 1024, max - 1, max] {
        let data = bytes(size, size as u64);
        let (from, into) = (pair.a.region_with(&data), pair.b.region(size + 8, Rights::NONE));
        pair.b.post(Op::receive(7, into.slice(..)));
        assert_eq!(pair.succeed(Op::send(1, from.slice(..size))), Done::Placed);
        let received = pair.completion_at_b();
        assert_eq!(received.outcome, Ok(Done::Received { length: size, imm: None }));
        assert_eq!(read(&into, 0, size), data, "{size} bytes");
        assert_eq!(read(&into, size, 8), [0; 8], "after {size} bytes");
    }
}

pub(crate) fn a_datagram_longer_than_the_mtu_is_unsupported(mut pair: Pair) {
    let caps = pair.a.lane.caps().clone();
    assert!(caps.datagram && caps.max_message <= 4096, "{caps:?}");
    let from = pair.a.region_with(&bytes(caps.max_message + 1, 1));
    let outcome = pair.run(Op::send(1, from.slice(..))).outcome;
    assert_eq!(outcome, Err(Failure::Unsupported));
    let into = pair.b.region(8, Rights::NONE);
    pair.b.post(Op::receive(2, into.slice(..)));
    pair.succeed(Op::send(3, from.slice(..8)));
    assert_eq!(pair.completion_at_b().op_id, 2, "the lane still works");
}

pub(crate) fn a_datagram_with_immediate_data_is_scattered(mut pair: Pair) {
    let data = bytes(300, 8);
    let (from, into) = (pair.a.region_with(&data), pair.b.region(300, Rights::NONE));
    let slices = |region: &fabric::Region| {
        Slices::Many(vec![region.slice(..1), region.slice(1..200), region.slice(200..)])
    };
    pair.b.post(Op::receive(2, slices(&into)));
    pair.a.post(Op { op_id: 1, work: Work::Send { from: slices(&from), imm: Some(77) } });
    let received = pair.completion_at_b();
    assert_eq!(received.outcome, Ok(Done::Received { length: 300, imm: Some(77) }));
    assert_eq!(read(&into, 0, 300), data);
    assert_eq!(pair.completion().outcome, Ok(Done::Placed));
}

pub(crate) fn one_sided_operations_are_unsupported(mut pair: Pair) {
    let region = pair.b.region(64, Rights::ALL);
    let remote = pair.b.lane.grant(&region).expect("granted");
    let window = pair.a.lane.import(&remote).expect("imported");
    let own = pair.a.region(64, Rights::NONE);
    let (at, old) = (window.at(0), own.slice(..8));
    let works = [
        Work::Write { from: own.slice(..8).into(), to: at.clone(), imm: None },
        Work::Write { from: own.slice(..8).into(), to: at.clone(), imm: Some(1) },
        Work::Read { into: own.slice(..8).into(), from: at.clone() },
        Work::FetchAdd { old: old.clone(), at: at.clone(), add: 1 },
        Work::CompareSwap { old, at, expect: 0, new: 1 },
    ];
    for work in works {
        assert_eq!(pair.run(Op { op_id: 1, work }).outcome, Err(Failure::Unsupported));
    }
    assert_eq!(read(&region, 0, 64), [0; 64]);
}

pub(crate) fn a_datagram_without_a_receive_is_lost(mut pair: Pair) {
    let (from, into) = (pair.a.region_with(b"lost"), pair.b.region(8, Rights::NONE));
    assert_eq!(pair.succeed(Op::send(1, from.slice(..))), Done::Placed, "sent, not received");
    // Long enough for it to arrive and be dropped.
    let late = Instant::now() + Duration::from_millis(200);
    while Instant::now() < late {
        pair.poll_both();
    }
    from.memory().write(0, b"here");
    pair.b.post(Op::receive(2, into.slice(..)));
    pair.succeed(Op::send(3, from.slice(..)));
    assert_eq!(pair.completion_at_b().outcome, Ok(Done::Received { length: 4, imm: None }));
    assert_eq!(read(&into, 0, 4), *b"here");
}

pub(crate) fn a_closed_datagram_lane_returns_all_receives(mut pair: Pair) {
    let buffer = pair.a.region(64, Rights::NONE);
    for n in 0..10 {
        pair.a.post(Op::receive(n, buffer.slice(..)));
    }
    pair.a.lane.close();
    pair.until("everything", |pair| pair.a.count() == 10);
    for completion in pair.a.done().drain(..) {
        assert_eq!(completion.outcome, Err(Failure::Flushed));
    }
}

pub(crate) fn a_sleeping_end_is_woken_by_a_datagram(mut pair: Pair) {
    let (from, into) = (pair.a.region_with(b"wake up!"), pair.b.region(8, Rights::NONE));
    pair.b.post(Op::receive(1, into.slice(..)));
    let Pair { mut a, mut b, .. } = pair;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            let mut done = Vec::new();
            wait(&mut *b.lane, &mut done, TIMEOUT);
            done.pop().map(|completion| completion.outcome)
        });
        std::thread::sleep(Duration::from_millis(200));
        a.post(Op::send(2, from.slice(..)));
        let received = Ok(Done::Received { length: 8, imm: None });
        assert_eq!(sleeper.join().expect("no panic"), Some(received));
    });
}

pub(crate) fn datagrams_are_counted(mut pair: Pair) {
    let (from, into) = (pair.a.region_with(&[1; 48]), pair.b.region(64, Rights::NONE));
    for n in 0..40 {
        pair.b.post(Op::receive(n, into.slice(..)));
        pair.succeed(Op::send(n, from.slice(..)));
        pair.completion_at_b();
    }
    let (sent, received) = (pair.a.lane.stats().clone(), pair.b.lane.stats().clone());
    assert_eq!((sent.operations(OpKind::Send), sent.bytes(OpKind::Send)), (40, 1920));
    assert_eq!((received.operations(OpKind::Receive), received.bytes(OpKind::Receive)), (40, 1920));
    assert!(sent.latency().count() >= 1);
}
