//! What is in the air when a lane ends: it lands, unless its target closed the lane.

use super::*;
use crate::Pieces;

/// A write that is held up for five seconds, given up by its sender long before.
fn given_up() -> (Pair, Region) {
    let mut pair = Pair::new(1);
    pair.world.change(RAIL, |faults| faults.hold = Duration::from_secs(5));
    let (target, window) = pair.window(4, Rights::ALL);
    let from = holding(b"late");
    post(&mut pair.a, Op::write(1, from.slice(..), window.at(0)));
    pair.world.advance(GIVEN_UP);
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::PeerGone))]);
    assert_eq!(content(&target), [0; 4]);
    // The sender may use its memory for other things now; what is in the air stays as it was.
    from.memory().write(0, b"new!");
    (pair, target)
}

#[test]
fn a_write_lands_after_its_sender_was_told_that_it_failed() {
    let (mut pair, target) = given_up();
    pair.a.close();
    pair.world.advance(Duration::from_millis(4599));
    assert_eq!(content(&target), [0; 4]);
    pair.world.advance(ms(1));
    assert_eq!((pair.world.now(), content(&target)), (Duration::from_secs(5), b"late".to_vec()));
}

#[test]
fn a_late_write_does_not_land_where_the_target_closed_its_end() {
    let (mut pair, target) = given_up();
    pair.b.close();
    pair.settle();
    assert!(pair.world.now() >= Duration::from_secs(5), "it did arrive");
    assert_eq!(content(&target), [0; 4]);
}

#[test]
fn a_late_write_does_not_land_where_the_target_dropped_its_end() {
    let (pair, target) = given_up();
    let Pair { world, a, b } = pair;
    drop(b);
    while world.step() {}
    assert!(world.now() >= Duration::from_secs(5), "it did arrive");
    assert_eq!(content(&target), [0; 4]);
    drop(a);
}

#[test]
fn a_late_number_completes_a_receive_once_though_it_was_sent_many_times() {
    let mut pair = Pair::new(1);
    pair.world.change(RAIL, |faults| faults.hold = Duration::from_secs(5));
    let (_target, window) = pair.window(1, Rights::ALL);
    pair.b.post(&mut (1..4).map(|token| Op::receive(token, Pieces::EMPTY)).collect());
    post(&mut pair.a, Op::write_imm(9, Pieces::EMPTY, window.at(0), 5));
    pair.settle();
    assert_eq!(outcomes(&mut pair.a), [(9, Err(Failure::PeerGone))]);
    assert_eq!(outcomes(&mut pair.b), [(1, received(0, Some(5)))]);
    pair.b.close();
    let flushed = Err(Failure::Flushed);
    assert_eq!(outcomes(&mut pair.b), [(2, flushed), (3, flushed)]);
}

#[test]
fn a_rail_that_dies_behind_a_write_does_not_stop_it() {
    let mut pair = Pair::new(1);
    pair.world.change(RAIL, |faults| faults.delay = ms(2));
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, holding(b"x").slice(..), window.at(0)));
    pair.world.change(RAIL, |faults| faults.dead = true);
    pair.settle();
    assert_eq!(content(&target), b"x", "done");
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::PeerGone))], "and said to have failed");
}

#[test]
fn closing_gives_back_everything_in_flight_and_fences_our_memory() {
    let mut pair = Pair::new(1);
    pair.world.change(RAIL, |faults| faults.delay = ms(1));
    let (target, window) = pair.window(1, Rights::ALL);
    let into = region(1, Rights::NONE);
    target.memory().write(0, b"x");
    post(&mut pair.a, Op::receive(1, Pieces::EMPTY));
    post(&mut pair.a, Op::read(2, into.slice(..), window.at(0)));
    post(&mut pair.a, Op::write(3, holding(b"y").slice(..), window.at(0)));
    pair.a.close();
    pair.a.close();
    let flushed = Err(Failure::Flushed);
    assert_eq!(outcomes(&mut pair.a), [(2, flushed), (3, flushed), (1, flushed)]);
    pair.settle();
    assert_eq!(content(&into), b"\0", "a read's answer comes to nobody");
    assert_eq!(content(&target), b"y", "but the write was in the air");
    assert!(poll(&mut pair.a).is_empty(), "each comes back once");
}

#[test]
fn a_dropped_lane_lets_go_of_its_memory_and_its_peer_finds_out() {
    let mut pair = Pair::new(1);
    pair.world.change(RAIL, |faults| faults.delay = ms(1));
    let (target, window) = pair.window(1, Rights::ALL);
    let memory = Memory::from_boxed(b"y".to_vec().into_boxed_slice()).unwrap();
    let from = pair.world.fabric("a", RAIL).register(&memory, Rights::NONE).unwrap();
    post(&mut pair.a, Op::write(1, from.slice(..), window.at(0)));
    post(&mut pair.a, Op::receive(2, from.slice(..)));
    drop((from, pair.a));
    assert_eq!(*memory.into_boxed().expect("nobody holds it"), *b"y");
    post(&mut pair.b, Op::send(3, Pieces::EMPTY));
    while pair.world.step() {}
    assert_eq!(outcomes(&mut pair.b), [(3, Err(Failure::PeerGone))]);
    assert_eq!(content(&target), b"y", "the write was in the air");
}
