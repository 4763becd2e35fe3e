//! Every operation, on a wire without faults or with a delay.

use rustix::event::{PollFd, PollFlags, Timespec};

use super::*;
use crate::{OPS_PER_LATENCY_SAMPLE, OpKind, Slices, Work};

#[test]
fn a_completed_write_is_in_the_peers_memory() {
    let mut pair = Pair::new(1);
    let (target, window) = pair.window(8, Rights::ALL);
    let slices = Slices::Many(vec![region_with(b"ab").slice(..), region_with(b"-cd-").slice(1..3)]);
    post(&mut pair.a, Op::write(7, slices, window.at(2)));
    assert_eq!(outcomes(&mut pair.a), [(7, Ok(Done::Placed))]);
    assert_eq!(content(&target), b"\0\0abcd\0\0");
    assert!(poll(&mut pair.b).is_empty(), "the peer got a completion");
}

#[test]
fn immediate_data_completes_a_receive_after_the_bytes_are_written() {
    let mut pair = Pair::new(1);
    let (target, window) = pair.window(4, Rights::ALL);
    post(&mut pair.b, Op::receive(1, Slices::EMPTY));
    post(&mut pair.a, Op::write_imm(2, region_with(b"data").slice(..), window.at(0), 99));
    assert_eq!(outcomes(&mut pair.b), [(1, received(4, Some(99)))]);
    assert_eq!(content(&target), b"data");
    assert_eq!(outcomes(&mut pair.a), [(2, Ok(Done::Placed))]);
}

#[test]
fn a_read_returns_the_peers_bytes() {
    let mut pair = Pair::new(1);
    let (source, window) = pair.window(6, Rights { read: true, ..Rights::NONE });
    source.memory().write(0, b"abcdef");
    let into = region(8, Rights::NONE);
    let slices = Slices::Many(vec![into.slice(6..8), into.slice(0..3)]);
    post(&mut pair.a, Op::read(1, slices, window.at(1)));
    assert_eq!(outcomes(&mut pair.a), [(1, Ok(Done::Placed))]);
    assert_eq!(content(&into), b"def\0\0\0bc");
}

#[test]
fn messages_fill_receives_in_order_of_arrival() {
    let mut pair = Pair::new(1);
    let buffer = region(16, Rights::NONE);
    let slices = Slices::Many(vec![buffer.slice(0..2), buffer.slice(8..16)]);
    post(&mut pair.b, Op::receive(1, slices));
    post(&mut pair.b, Op::receive(2, buffer.slice(4..8)));
    post(&mut pair.a, Op::send(3, region_with(b"first").slice(..)));
    let imm = Some(5);
    let from = Slices::One(region_with(b"2nd").slice(..));
    post(&mut pair.a, Op { op_id: 4, work: Work::Send { from, imm } });
    assert_eq!(outcomes(&mut pair.b), [(1, received(5, None)), (2, received(3, imm))]);
    assert_eq!(content(&buffer), b"fi\0\x002nd\0rst\0\0\0\0\0");
    assert_eq!(outcomes(&mut pair.a), [(3, Ok(Done::Placed)), (4, Ok(Done::Placed))]);
}

#[test]
fn atomics_change_the_value_and_return_the_old_one() {
    let mut pair = Pair::new(1);
    let (target, window) = pair.window(16, Rights::ALL);
    target.memory().store(8, 40);
    let old = region(24, Rights::NONE);
    let at = |index: usize| old.slice(index * 8..index * 8 + 8);
    let swap = |expect, new| Work::CompareSwap { old: at(1), at: window.at(8), expect, new };
    let add = Work::FetchAdd { old: at(0), at: window.at(8), add: 2 };
    let works = [add, swap(42, 50), swap(42, 60)];
    for (op_id, work) in (1..).zip(works) {
        post(&mut pair.a, Op { op_id, work });
    }
    let expected = [(1, Ok(Done::Old(40))), (2, Ok(Done::Old(42))), (3, Ok(Done::Old(50)))];
    assert_eq!(outcomes(&mut pair.a), expected);
    assert_eq!(target.memory().load(8), 50);
    assert_eq!([old.memory().load(0), old.memory().load(8)], [40, 50]);
}

#[test]
fn the_accepting_end_may_write_too() {
    let mut pair = Pair::new(1);
    let region = region(4, Rights::ALL);
    let granted = pair.a.grant(&region).unwrap();
    let window = pair.b.import(&granted).unwrap();
    post(&mut pair.b, Op::write(1, region_with(b"back").slice(..), window.at(0)));
    assert_eq!(outcomes(&mut pair.b), [(1, Ok(Done::Placed))]);
    assert_eq!(content(&region), b"back");
}

#[test]
fn time_advances_only_by_calls() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(3));
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    assert!(poll(&mut pair.a).is_empty());
    pair.world.advance(ms(2));
    assert_eq!(content(&target), b"\0");
    assert!(pair.world.step(), "the write arrives");
    assert_eq!((pair.world.now(), content(&target)), (ms(3), b"x".to_vec()));
    assert!(poll(&mut pair.a).is_empty(), "the answer is in flight");
    assert!(pair.world.step(), "the answer arrives");
    assert_eq!((pair.world.now(), outcomes(&mut pair.a).len()), (ms(6), 1));
    assert!(!pair.world.step(), "no more events");
}

#[test]
fn a_full_lane_takes_no_operations_until_completions_are_polled() {
    let mut pair = Pair::with(Config { depth: 2, receives: 1, ..Config::default() });
    let (_target, window) = pair.window(4, Rights::ALL);
    let byte = region_with(b"x");
    let write = |op_id| Op::write(op_id, byte.slice(..), window.at(0));
    let mut ops: VecDeque<Op> = (1..=3).map(write).collect();
    assert_eq!((pair.a.post(&mut ops), ops.len()), (2, 1));
    assert_eq!(pair.a.post(&mut ops), 0, "finished, but not polled");
    assert_eq!(outcomes(&mut pair.a).len(), 2);
    assert_eq!((pair.a.post(&mut ops), ops.len()), (1, 0));
    // Receives have a limit of their own.
    ops.extend([Op::receive(4, Slices::EMPTY), Op::receive(5, Slices::EMPTY), write(6)]);
    assert_eq!((pair.a.post(&mut ops), ops.front().map(|op| op.op_id)), (1, Some(5)));
    let caps = pair.a.caps();
    assert_eq!((caps.transport, caps.depth, caps.receives), ("sim", 2, 1));
}

#[test]
fn a_receive_may_be_posted_within_the_timeout() {
    let mut pair = Pair::new(1);
    post(&mut pair.a, Op::send(1, region_with(b"hi").slice(..)));
    pair.world.advance(ms(490));
    assert!(poll(&mut pair.a).is_empty());
    let buffer = region(2, Rights::NONE);
    post(&mut pair.b, Op::receive(2, buffer.slice(..)));
    pair.world.advance(ms(10));
    assert_eq!(outcomes(&mut pair.b), [(2, received(2, None))]);
    assert_eq!(outcomes(&mut pair.a), [(1, Ok(Done::Placed))]);
    assert_eq!(content(&buffer), b"hi");
}

#[test]
fn operations_after_a_message_without_a_receive_wait_in_order() {
    let mut pair = Pair::new(1);
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::send(1, Slices::EMPTY));
    post(&mut pair.a, Op::write(2, region_with(b"x").slice(..), window.at(0)));
    pair.world.advance(ms(450));
    assert_eq!(content(&target), b"\0");
    post(&mut pair.b, Op::receive(3, Slices::EMPTY));
    pair.world.advance(ms(50));
    assert_eq!(outcomes(&mut pair.a), [(1, Ok(Done::Placed)), (2, Ok(Done::Placed))]);
    assert_eq!(content(&target), b"x");
}

#[test]
fn the_descriptor_is_readable_when_there_is_something_to_poll_for() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(1));
    let (_target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    assert!(pair.a.arm() && !readable(&*pair.a));
    pair.world.advance(ms(2));
    assert!(readable(&*pair.a) && !pair.a.arm(), "a completion is ready");
    assert_eq!(outcomes(&mut pair.a).len(), 1);
    assert!(pair.a.arm() && !readable(&*pair.a));
}

#[test]
fn waiting_ends_when_another_thread_advances_the_world() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(1));
    let (_target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    let world = pair.world.clone();
    let advancer = std::thread::spawn(move || world.advance(ms(2)));
    let mut done = Vec::new();
    assert_eq!(crate::wait(&mut *pair.a, &mut done, Duration::from_secs(60)), 1);
    advancer.join().unwrap();
}

#[test]
fn operations_are_counted_and_timed_in_simulated_time() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(4));
    let (_target, window) = pair.window(4, Rights::ALL);
    let bytes = region_with(b"four");
    let ops = (0..OPS_PER_LATENCY_SAMPLE + 1)
        .map(|op_id| Op::write(op_id, bytes.slice(..), window.at(0)));
    pair.a.post(&mut ops.collect());
    pair.settle();
    pair.a.close();
    post(&mut pair.a, Op::receive(0, Slices::EMPTY));
    assert_eq!(poll(&mut pair.a).len() as u64, OPS_PER_LATENCY_SAMPLE + 2);
    let stats = pair.a.stats();
    assert_eq!(stats.operations(OpKind::Write), OPS_PER_LATENCY_SAMPLE + 1);
    assert_eq!(stats.bytes(OpKind::Write), 4 * (OPS_PER_LATENCY_SAMPLE + 1));
    assert_eq!(stats.failures(Failure::Flushed), 1);
    assert_eq!(stats.latency().count(), 2);
    let median = stats.latency().quantile(0.5).unwrap();
    assert!((ms(8)..ms(10)).contains(&median), "{median:?}");
}

#[test]
fn a_completion_returns_the_operations_memory() {
    let mut pair = Pair::new(1);
    let (_target, window) = pair.window(4, Rights::ALL);
    let from = region_with(b"mine");
    post(&mut pair.a, Op::write(1, from.slice(1..3), window.at(0)));
    drop(from);
    let done = poll(&mut pair.a).remove(0);
    let Work::Write { from, .. } = done.work else { panic!("a write was posted") };
    assert_eq!(from.as_slice()[0].to_vec(), b"in");
}

fn readable(lane: &dyn Lane) -> bool {
    let fd = lane.fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}
