//! Packets in flight when a lane ends: they take effect, unless the target closed the lane.

use super::*;
use crate::Slices;

/// A write that is delayed by five seconds, and has failed at its sender long before.
fn failed_write() -> (Pair, Region) {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.hold = Duration::from_secs(5));
    let (target, window) = pair.window(4, Rights::ALL);
    let from = region_with(b"late");
    post(&mut pair.a, Op::write(1, from.slice(..), window.at(0)));
    pair.world.advance(LANE_TIMEOUT);
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::PeerGone))]);
    assert_eq!(content(&target), [0; 4]);
    // The sender may reuse its memory now; the packet in flight does not change.
    from.memory().write(0, b"new!");
    (pair, target)
}

#[test]
fn a_write_takes_effect_after_it_failed_at_its_sender() {
    let (mut pair, target) = failed_write();
    pair.a.close();
    pair.world.advance(Duration::from_millis(4599));
    assert_eq!(content(&target), [0; 4]);
    pair.world.advance(ms(1));
    assert_eq!((pair.world.now(), content(&target)), (Duration::from_secs(5), b"late".to_vec()));
}

#[test]
fn a_late_write_has_no_effect_after_the_target_closed_its_end() {
    let (mut pair, target) = failed_write();
    pair.b.close();
    pair.settle();
    assert!(pair.world.now() >= Duration::from_secs(5), "the packet did not arrive");
    assert_eq!(content(&target), [0; 4]);
}

#[test]
fn a_late_write_has_no_effect_after_the_target_dropped_its_end() {
    let (pair, target) = failed_write();
    let Pair { world, a, b } = pair;
    drop(b);
    while world.step() {}
    assert!(world.now() >= Duration::from_secs(5), "the packet did not arrive");
    assert_eq!(content(&target), [0; 4]);
    drop(a);
}

#[test]
fn retransmitted_immediate_data_completes_one_receive() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.hold = Duration::from_secs(5));
    let (_target, window) = pair.window(1, Rights::ALL);
    pair.b.post(&mut (1..4).map(|op_id| Op::receive(op_id, Slices::EMPTY)).collect());
    post(&mut pair.a, Op::write_imm(9, Slices::EMPTY, window.at(0), 5));
    pair.settle();
    assert_eq!(outcomes(&mut pair.a), [(9, Err(Failure::PeerGone))]);
    assert_eq!(outcomes(&mut pair.b), [(1, received(0, Some(5)))]);
    pair.b.close();
    let flushed = Err(Failure::Flushed);
    assert_eq!(outcomes(&mut pair.b), [(2, flushed), (3, flushed)]);
}

#[test]
fn a_packet_in_flight_arrives_though_the_wire_dies() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(2));
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    pair.world.change(WIRE, |faults| faults.dead = true);
    pair.settle();
    assert_eq!(content(&target), b"x");
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::PeerGone))]);
}

#[test]
fn closing_returns_all_operations_and_protects_our_memory() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(1));
    let (target, window) = pair.window(1, Rights::ALL);
    let into = region(1, Rights::NONE);
    target.memory().write(0, b"x");
    post(&mut pair.a, Op::receive(1, Slices::EMPTY));
    post(&mut pair.a, Op::read(2, into.slice(..), window.at(0)));
    post(&mut pair.a, Op::write(3, region_with(b"y").slice(..), window.at(0)));
    pair.a.close();
    pair.a.close();
    let flushed = Err(Failure::Flushed);
    assert_eq!(outcomes(&mut pair.a), [(2, flushed), (3, flushed), (1, flushed)]);
    pair.settle();
    assert_eq!(content(&into), b"\0", "a read's answer changed memory after the close");
    assert_eq!(content(&target), b"y", "the write was in flight");
    assert!(poll(&mut pair.a).is_empty(), "an operation was returned twice");
}

#[test]
fn a_dropped_lane_releases_its_memory_and_its_peer_fails() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(1));
    let (target, window) = pair.window(1, Rights::ALL);
    let memory = Memory::from_boxed(b"y".to_vec().into_boxed_slice()).unwrap();
    let from = pair.world.fabric("a", WIRE).register(&memory, Rights::NONE).unwrap();
    post(&mut pair.a, Op::write(1, from.slice(..), window.at(0)));
    post(&mut pair.a, Op::receive(2, from.slice(..)));
    drop((from, pair.a));
    assert_eq!(*memory.into_boxed().expect("no other owner"), *b"y");
    post(&mut pair.b, Op::send(3, Slices::EMPTY));
    while pair.world.step() {}
    assert_eq!(outcomes(&mut pair.b), [(3, Err(Failure::PeerGone))]);
    assert_eq!(content(&target), b"y", "the write was in flight");
}
