//! Operations that the peer or the lane refuses, and the effect on the lane.

use super::*;
use crate::{ErrorKind, Slices, Work};

const READ: Rights = Rights { read: true, ..Rights::NONE };
const WRITE: Rights = Rights { write: true, ..Rights::NONE };

/// Posts an operation that the peer must refuse, with a receive posted at both ends; both lanes must end.
#[track_caller]
fn refused(mut pair: Pair, op: Op, failure: Failure) {
    let op_id = op.op_id;
    post(&mut pair.a, Op::receive(100, Slices::EMPTY));
    post(&mut pair.b, Op::receive(200, Slices::EMPTY));
    post(&mut pair.a, op);
    let flushed = Err(Failure::Flushed);
    assert_eq!(outcomes(&mut pair.a), [(op_id, Err(failure)), (100, flushed)]);
    let theirs = outcomes(&mut pair.b);
    // The receive was too short, or it was flushed.
    let expected = if failure == Failure::TooLong { Err(failure) } else { flushed };
    assert_eq!(theirs, [(200, expected)]);
    for lane in [&mut pair.a, &mut pair.b] {
        post(lane, Op::send(300, Slices::EMPTY));
        post(lane, Op::receive(301, Slices::EMPTY));
        assert_eq!(outcomes(lane), [(300, flushed), (301, flushed)], "the lane is dead");
    }
}

/// A pair, and a target at `offset` in a region of eight bytes with these rights.
fn pair_with(rights: Rights, offset: u64) -> (Pair, Region, Target) {
    let mut pair = Pair::new(1);
    let (region, window) = pair.window(8, rights);
    let at = window.at(offset);
    (pair, region, at)
}

fn word() -> crate::Slice {
    region(8, Rights::NONE).slice(..)
}

#[test]
fn a_wrong_key_ends_both_lanes() {
    let mut pair = Pair::new(1);
    let mut granted = pair.b.grant(&region(8, Rights::ALL)).unwrap().to_bytes();
    granted[30] ^= 1;
    let granted = crate::RemoteRegion::from_bytes(&granted).unwrap();
    let window = pair.a.import(&granted).unwrap();
    refused(pair, Op::read(1, word(), window.at(0)), Failure::Access);
}

#[test]
fn a_write_out_of_bounds_is_refused() {
    let (pair, region, at) = pair_with(Rights::ALL, 1);
    refused(pair, Op::write(1, region_with(&[7; 8]).slice(..), at), Failure::Access);
    assert_eq!(content(&region), [0; 8], "nothing may be written");
}

#[test]
fn each_right_is_checked() {
    let (pair, _region, at) = pair_with(READ, 0);
    refused(pair, Op::write(1, word(), at), Failure::Access);
    let (pair, _region, at) = pair_with(READ, 0);
    refused(pair, Op::write_imm(1, word(), at, 5), Failure::Access);
    let (pair, _region, at) = pair_with(WRITE, 0);
    refused(pair, Op::read(1, word(), at), Failure::Access);
    let (pair, _region, at) = pair_with(Rights { atomic: false, ..Rights::ALL }, 0);
    let work = Work::FetchAdd { old: word(), at, add: 1 };
    refused(pair, Op { op_id: 1, work }, Failure::Access);
}

#[test]
fn a_misaligned_atomic_is_refused() {
    let mut pair = Pair::new(1);
    let (_region, window) = pair.window(16, Rights::ALL);
    let work = Work::CompareSwap { old: word(), at: window.at(4), expect: 0, new: 1 };
    refused(pair, Op { op_id: 1, work }, Failure::Access);
}

#[test]
fn a_dropped_region_is_refused() {
    let (pair, region, at) = pair_with(Rights::ALL, 0);
    drop(region);
    refused(pair, Op::read(1, word(), at), Failure::Access);
}

#[test]
fn a_message_longer_than_the_receive_fails_at_both_ends() {
    refused(Pair::new(1), Op::send(1, word()), Failure::TooLong);
}

#[test]
fn a_missing_receive_ends_only_the_sender() {
    let mut pair = Pair::new(1);
    post(&mut pair.a, Op::send(1, word()));
    pair.world.advance(ms(499));
    assert!(poll(&mut pair.a).is_empty());
    pair.world.advance(ms(1));
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::NotReady))]);
    post(&mut pair.b, Op::receive(2, word()));
    pair.settle();
    assert!(poll(&mut pair.b).is_empty(), "the receiver got a completion");
}

#[test]
fn an_unsupported_operation_does_not_end_the_lane() {
    let mut pair = Pair::new(1);
    let (region, window) = pair.window(64, Rights::ALL);
    let mut other = Pair::on(&pair.world, WIRE);
    let granted = other.b.grant(&region).unwrap();
    let foreign = other.a.import(&granted).unwrap();
    let small = region.clone();
    let slices = |count: usize| Slices::Many((0..count).map(|at| small.slice(at..=at)).collect());
    let add = |old| Work::FetchAdd { old, at: window.at(0), add: 1 };
    let ops = [
        Op::write(1, slices(1), foreign.at(0)),
        Op::write(2, slices(17), window.at(0)),
        Op::receive(3, slices(17)),
        Op { op_id: 4, work: add(small.slice(4..12)) },
        Op { op_id: 5, work: add(small.slice(0..16)) },
    ];
    assert_eq!(pair.a.post(&mut ops.into()), 5);
    let expected: Vec<Outcome> = (1..=5).map(|at| (at, Err(Failure::Unsupported))).collect();
    assert_eq!(outcomes(&mut pair.a), expected);
    post(&mut pair.a, Op::read(6, slices(16), window.at(0)));
    assert_eq!(outcomes(&mut pair.a), [(6, Ok(Done::Placed))], "the lane still works");
}

#[test]
fn a_message_over_the_limit_is_unsupported() {
    let mut pair = Pair::new(1);
    // Allocated, but never accessed: the lane must refuse by the length.
    let part = region((1 << 26) + 1, Rights::NONE);
    let from: Vec<_> = std::iter::repeat_n(part.slice(..), 16).collect();
    post(&mut pair.a, Op::send(1, Slices::Many(from)));
    assert_eq!(outcomes(&mut pair.a), [(1, Err(Failure::Unsupported))]);
    assert_eq!((pair.a.caps().max_message, pair.a.caps().max_slices), (1 << 30, 16));
}

#[test]
fn regions_of_other_kinds_of_lanes_are_not_imported() {
    let mut pair = Pair::new(1);
    let mut bytes = pair.b.grant(&region(8, Rights::ALL)).unwrap().to_bytes();
    bytes[1] = 3;
    let error = pair.a.import(&crate::RemoteRegion::from_bytes(&bytes).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("Tcp"), "{error}");
}

#[test]
fn invalid_offers_are_refused_with_a_reason() {
    let world = World::new(1);
    let unconnected =
        |host: &str, wire: &str, side| world.fabric(host, wire).prepare_lane(side).unwrap();
    let refused = |offer: &[u8]| {
        let ours = unconnected("a", WIRE, Side::Dial);
        let error = ours.connect(offer, Duration::ZERO).err().expect("refused");
        (error.kind(), error.to_string())
    };
    let elsewhere = World::new(1).fabric("b", WIRE).prepare_lane(Side::Accept).unwrap();
    let (other_wire, same_side) =
        (unconnected("b", "wire1", Side::Accept), unconnected("b", WIRE, Side::Dial));
    let (taken, third) = (unconnected("b", WIRE, Side::Accept), unconnected("c", WIRE, Side::Dial));
    let taken_offer = taken.offer();
    let _lane = taken.connect(&third.offer(), Duration::ZERO).unwrap();
    let gone = unconnected("b", WIRE, Side::Accept).offer();
    let killed = unconnected("k", WIRE, Side::Accept);
    world.kill("k");
    for (offer, kind, why) in [
        (vec![1, 2, 3], ErrorKind::Misuse, "an offer of 3 bytes"),
        (elsewhere.offer(), ErrorKind::Misuse, "another world"),
        (other_wire.offer(), ErrorKind::Misuse, "this end is on wire0, the other on wire1"),
        (same_side.offer(), ErrorKind::Misuse, "both ends have the side Dial"),
        (taken_offer, ErrorKind::Misuse, "connected to a third"),
        (gone, ErrorKind::Gone, "the other end is gone"),
        (killed.offer(), ErrorKind::Gone, "the other end is gone"),
    ] {
        let (found, text) = refused(&offer);
        assert!(found == kind && text.contains(why), "{found:?}: {text}");
    }
}
