//! Cases for every reliable lane: operations that must be refused.

use fabric::{Done, Failure, Op, RemoteRegion, Rights, Work};

use crate::pair::{Pair, bytes, connect, read};

const WRITE: Rights = Rights { write: true, ..Rights::NONE };
const READ: Rights = Rights { read: true, ..Rights::NONE };

pub(crate) fn an_unaligned_atomic_is_refused(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(8, Rights::NONE);
    let work = Work::FetchAdd { old: old.slice(..), at: window.at(12), add: 1 };
    let outcome = pair.run(Op { op_id: 1, work }).outcome;
    // By the lane if it knows the peer's address, otherwise by the peer.
    assert!(matches!(outcome, Err(Failure::Access | Failure::Unsupported)), "{outcome:?}");
}

/// A lane fails, unless the peer keeps messages.
pub(crate) fn a_missing_receive_times_out(mut pair: Pair) {
    let from = pair.a.region_with(b"hello!");
    pair.a.post(Op::send(1, from.slice(..)));
    pair.a.post(Op::send(2, from.slice(..)));
    // In any order.
    let outcomes = [pair.completion_of(1), pair.completion_of(2)];
    if pair.keeps_messages {
        assert_eq!(outcomes, [Ok(Done::Placed); 2]);
        return;
    }
    assert!(outcomes.contains(&Err(Failure::NotReady)), "{outcomes:?}");
    assert!(outcomes.contains(&Err(Failure::Flushed)), "{outcomes:?}");
}

/// A link fails only the receive, and delivers the message to the next one that is large enough.
pub(crate) fn a_message_longer_than_its_receive_fails(pair: Pair) {
    message_longer_than_its_receive(100, pair);
}

pub(crate) fn a_long_message_longer_than_its_receive_fails(pair: Pair) {
    message_longer_than_its_receive(300_000, pair);
}

fn message_longer_than_its_receive(length: usize, mut pair: Pair) {
    let data = bytes(length, 1);
    let (from, into) = (pair.a.region_with(&data), pair.b.region(length + 28, Rights::NONE));
    pair.b.post(Op::receive(2, into.slice(..length - 1)));
    pair.a.post(Op::send(1, from.slice(..)));
    assert_eq!(pair.completion_at_b().outcome, Err(Failure::TooLong));
    assert_eq!(read(&into, length - 1, 29), [0; 29], "bytes after the receive changed");
    if pair.is_link {
        pair.b.post(Op::receive(3, into.slice(..)));
        let received = pair.completion_at_b();
        assert_eq!(received.outcome, Ok(Done::Received { length, imm: None }));
        assert!(read(&into, 0, length) == data);
    }
    let sent = if pair.keeps_messages { Ok(Done::Placed) } else { Err(Failure::TooLong) };
    assert_eq!(pair.completion_of(1), sent);
    if pair.keeps_messages && !pair.is_link {
        // The sender is told by its next operation, which gets no acknowledgement.
        assert_eq!(pair.b.lane.stats().ended(), Some(Failure::TooLong));
        return;
    }
    pair.assert_ended();
}

pub(crate) fn a_wrong_key_is_refused(mut pair: Pair) {
    let (region, _) = pair.shared(64, Rights::ALL);
    let remote = pair.b.lane.grant(&region).expect("granted");
    let from = pair.a.region_with(&[1; 8]);
    let window = pair.a.lane.import(&remote).expect("the right key");
    pair.succeed(Op::write(1, from.slice(..), window.at(56)));
    let mut forged = remote.to_bytes();
    // The last bytes of the key are random, or zero where keys are short.
    forged[22] ^= 0x40;
    let forged = RemoteRegion::from_bytes(&forged).expect("well formed");
    let window = match pair.a.lane.import(&forged) {
        Ok(window) => window,
        // If regions are mapped, importing a wrong one fails.
        Err(error) => {
            assert_eq!(
                (error.kind(), pair.a.lane.caps().transport),
                (fabric::ErrorKind::Denied, "shm")
            );
            return;
        }
    };
    assert_eq!(pair.run(Op::write(2, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 0, 56), [0; 56]);
    pair.assert_ended();
}

pub(crate) fn a_write_beyond_the_end_is_refused(mut pair: Pair) {
    let (region, window) = pair.shared(4096, Rights::ALL);
    let from = pair.a.region_with(&[1; 8]);
    let write = Op::write(1, from.slice(..), window.at(4092));
    assert_eq!(pair.run(write).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 4088, 8), [0; 8]);
    pair.assert_ended();
}

pub(crate) fn a_read_far_beyond_the_end_is_refused(mut pair: Pair) {
    let (_region, window) = pair.shared(4096, Rights::ALL);
    let into = pair.a.region(8, Rights::NONE);
    let read = Op::read(1, into.slice(..), window.at(u64::MAX - 3));
    assert_eq!(pair.run(read).outcome, Err(Failure::Access));
}

pub(crate) fn writing_needs_the_right(mut pair: Pair) {
    let (region, window) = pair.shared(64, READ);
    let from = pair.a.region_with(&[1; 8]);
    assert_eq!(pair.run(Op::write(1, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
    assert_eq!(read(&region, 0, 8), [0; 8]);
    let why = (!pair.is_link).then_some(Failure::Access);
    assert_eq!(pair.a.lane.stats().ended(), why, "wrong reason of the lane's end");
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
    assert_eq!(pair.run(Op { op_id: 1, work }).outcome, Err(Failure::Access));
    assert_eq!(region.memory().load(0), 0);
}

pub(crate) fn a_region_dropped_by_its_owner_is_refused(mut pair: Pair) {
    let (region, window) = pair.shared(64, Rights::ALL);
    let from = pair.a.region_with(&[1; 8]);
    pair.succeed(Op::write(1, from.slice(..), window.at(0)));
    drop(region);
    assert_eq!(pair.run(Op::write(2, from.slice(..), window.at(0))).outcome, Err(Failure::Access));
}

pub(crate) fn a_window_of_another_lane_is_unsupported(mut pair: Pair) {
    let (a, b) = connect(&*pair.a.fabric, &*pair.b.fabric);
    let region = pair.b.region(64, Rights::ALL);
    let (mut a, mut b) = (a, b);
    let window = a.import(&b.grant(&region).expect("granted")).expect("imported");
    let from = pair.a.region_with(&[1; 8]);
    let outcome = pair.run(Op::write(1, from.slice(..), window.at(0))).outcome;
    assert_eq!(outcome, Err(Failure::Unsupported));
    let (_region, window) = pair.shared(64, Rights::ALL);
    pair.succeed(Op::write(2, from.slice(..), window.at(0)));
}

pub(crate) fn memory_for_the_old_value_must_be_an_aligned_word(mut pair: Pair) {
    let (_region, window) = pair.shared(64, Rights::ALL);
    let old = pair.a.region(32, Rights::NONE);
    for offset in [old.slice(..4), old.slice(4..12), old.slice(0..16)] {
        let work = Work::FetchAdd { old: offset, at: window.at(0), add: 1 };
        assert_eq!(pair.run(Op { op_id: 1, work }).outcome, Err(Failure::Unsupported));
    }
    let work = Work::FetchAdd { old: old.slice(8..16), at: window.at(0), add: 1 };
    assert_eq!(pair.succeed(Op { op_id: 1, work }), Done::Old(0));
}

pub(crate) fn a_region_of_another_kind_of_lane_is_not_imported(mut pair: Pair) {
    let (region, _) = pair.shared(64, Rights::ALL);
    let mut bytes = pair.b.lane.grant(&region).expect("granted").to_bytes();
    bytes[1] = if bytes[1] == 1 { 3 } else { 1 };
    let other = RemoteRegion::from_bytes(&bytes).expect("well formed");
    let error = pair.a.lane.import(&other).expect_err("another kind");
    assert_eq!(error.kind(), fabric::ErrorKind::Misuse, "{error}");
}
