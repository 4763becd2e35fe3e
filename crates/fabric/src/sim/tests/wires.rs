//! Faults of wires, and killed hosts.

use super::*;
use crate::Slices;

/// Writes one byte; returns the outcome and the time until it.
fn probe(pair: &mut Pair) -> (Result<Done, Failure>, Duration) {
    let (_target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    let started = pair.world.now();
    loop {
        if let Some((_, outcome)) = outcomes(&mut pair.a).first() {
            return (*outcome, pair.world.now() - started);
        }
        assert!(pair.world.step(), "no more events, and no completion");
    }
}

#[test]
fn delay_and_jitter_are_in_the_round_trip() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| (faults.delay, faults.jitter) = (ms(5), ms(2)));
    let times: Vec<Duration> = (0..20).map(|_| probe(&mut pair).1).collect();
    assert!(times.iter().all(|time| (ms(10)..=ms(14)).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time != times[0]), "{times:?}");
}

#[test]
fn jitter_alone_keeps_the_order() {
    let seen = order_of_arrival(false, |faults| faults.jitter = ms(20));
    assert!(seen.is_sorted(), "{seen:?}");
}

#[test]
fn lanes_that_are_ordered_keep_the_order_on_a_wire_that_reorders() {
    let seen = order_of_arrival(true, |faults| faults.reorder = ms(20));
    assert!(seen.is_sorted(), "{seen:?}");
}

#[test]
fn operations_take_effect_in_any_order_where_a_wire_reorders() {
    let mut seen = order_of_arrival(false, |faults| faults.reorder = ms(20));
    assert!(!seen.is_sorted(), "{seen:?}");
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20), "each once");
}

/// Sends twenty values as immediate data, and returns them in order of arrival.
fn order_of_arrival(ordered: bool, fault: impl FnOnce(&mut crate::sim::Faults)) -> Vec<u32> {
    let mut pair = Pair::with(Config { ordered, ..Config::default() });
    assert_eq!(pair.a.caps().ordered, ordered);
    pair.world.change(WIRE, fault);
    let (_target, window) = pair.window(1, Rights::ALL);
    pair.b.post(&mut (0..20).map(|op_id| Op::receive(op_id, Slices::EMPTY)).collect());
    let write = |imm| Op::write_imm(0, Slices::EMPTY, window.at(0), imm);
    pair.a.post(&mut (0..20).map(write).collect());
    pair.settle();
    assert!(pair.world.now() <= ms(40), "one transit each way, without retransmissions");
    assert_eq!(outcomes(&mut pair.a), [(0, Ok(Done::Placed)); 20]);
    let number = |(_, outcome)| match outcome {
        Ok(Done::Received { imm: Some(imm), .. }) => imm,
        other => panic!("{other:?}"),
    };
    outcomes(&mut pair.b).into_iter().map(number).collect()
}

#[test]
fn a_little_loss_only_delays() {
    let mut pair = Pair::new(3);
    pair.world.change(WIRE, |faults| faults.loss = 0.2);
    let (outcomes, times): (Vec<_>, Vec<_>) = (0..50).map(|_| probe(&mut pair)).unzip();
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(Done::Placed)), "{outcomes:?}");
    let late = times.iter().filter(|time| **time >= ms(50)).count();
    assert!((5..35).contains(&late), "{late} of 50 were sent again");
}

#[test]
fn total_loss_ends_the_lane_after_all_retries() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.loss = 1.0);
    assert_eq!(probe(&mut pair), (Err(Failure::PeerGone), LANE_TIMEOUT));
}

#[test]
fn an_operation_whose_answers_are_lost_is_executed_once() {
    let mut pair = Pair::new(5);
    pair.world.change(WIRE, |faults| faults.loss = 0.3);
    let (target, window) = pair.window(8, Rights::ALL);
    let old = region(8, Rights::NONE);
    let add = |op_id| {
        let work = crate::Work::FetchAdd { old: old.slice(..), at: window.at(0), add: 1 };
        Op { op_id, work }
    };
    pair.a.post(&mut (0..30).map(add).collect());
    pair.settle();
    let done = outcomes(&mut pair.a);
    let expected: Vec<Outcome> = (0..30).map(|n| (n, Ok(Done::Old(n)))).collect();
    let mut sorted = done.clone();
    sorted.sort_by_key(|(op_id, _)| *op_id);
    assert_eq!((sorted, target.memory().load(0)), (expected, 30));
    assert!(pair.world.now() > ms(50), "some were sent again");
}

#[test]
fn bandwidth_is_shared_by_what_a_host_sends() {
    let mut pair = Pair::new(1);
    // A thousand bytes take a second, far longer than all retries; they make progress, so the lane does not fail.
    pair.world.change(WIRE, |faults| faults.bandwidth = Some(1000));
    let (_target, window) = pair.window(2000, Rights::ALL);
    let bytes = region(2000, Rights::NONE);
    post(&mut pair.a, Op::write(1, bytes.slice(..), window.at(0)));
    post(&mut pair.a, Op::write(2, bytes.slice(..1000), window.at(0)));
    post(&mut pair.a, Op::read(3, bytes.slice(..500), window.at(0)));
    let mut times = Vec::new();
    while pair.world.step() {
        let now = pair.world.now();
        times.extend(
            outcomes(&mut pair.a).into_iter().map(|(op_id, outcome)| (op_id, outcome, now)),
        );
    }
    let placed = |op_id, at| (op_id, Ok(Done::Placed), ms(at));
    assert_eq!(times, [placed(1, 2000), placed(2, 3000), placed(3, 3500)]);
}

#[test]
fn an_answer_that_waits_for_bandwidth_causes_no_timeout() {
    let mut busy = Pair::new(1);
    busy.world.change(WIRE, |faults| faults.bandwidth = Some(1000));
    let mut quiet = Pair::on(&busy.world, WIRE);
    let into = region(2000, Rights::NONE);
    let (_region, window) = busy.window(2000, Rights::ALL);
    post(&mut busy.a, Op::read(1, into.slice(..), window.at(0)));
    let (_region, window) = quiet.window(1, Rights::ALL);
    post(&mut quiet.a, Op::read(2, into.slice(..1), window.at(0)));
    busy.settle();
    assert_eq!(outcomes(&mut busy.a), [(1, Ok(Done::Placed))]);
    assert_eq!(outcomes(&mut quiet.a), [(2, Ok(Done::Placed))]);
    assert_eq!(busy.world.now(), ms(2001), "the short one after the long one");
}

#[test]
fn a_dead_wire_ends_its_lanes_and_no_others() {
    let world = World::new(1);
    let (mut dead, mut healthy) = (Pair::on(&world, "wire0"), Pair::on(&world, "wire1"));
    world.change("wire0", |faults| faults.dead = true);
    post(&mut dead.a, Op::receive(8, Slices::EMPTY));
    post(&mut dead.a, Op::send(9, Slices::EMPTY));
    let (_target, window) = dead.window(1, Rights::ALL);
    post(&mut dead.a, Op::read(1, region_with(b"x").slice(..), window.at(0)));
    assert_eq!(probe(&mut healthy).0, Ok(Done::Placed));
    world.advance(LANE_TIMEOUT);
    let flushed = Err(Failure::Flushed);
    let expected = [(9, Err(Failure::PeerGone)), (1, flushed), (8, flushed)];
    assert_eq!(outcomes(&mut dead.a), expected);
    assert_eq!(probe(&mut healthy).0, Ok(Done::Placed));
}

#[test]
fn a_revived_wire_works_for_new_lanes_but_not_for_dead_ones() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.dead = true);
    assert_eq!(probe(&mut pair).0, Err(Failure::PeerGone));
    let mut early = Pair::on(&pair.world, WIRE);
    pair.world.change(WIRE, |faults| faults.dead = false);
    assert_eq!(probe(&mut pair).0, Err(Failure::Flushed));
    assert_eq!(probe(&mut early).0, Ok(Done::Placed), "connected while it was dead");
    assert_eq!(probe(&mut Pair::on(&pair.world, WIRE)).0, Ok(Done::Placed));
}

#[test]
fn a_short_outage_is_survived_by_retransmissions() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.dead = true);
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.a, Op::write(1, region_with(b"x").slice(..), window.at(0)));
    pair.world.advance(ms(320));
    pair.world.change(WIRE, |faults| faults.dead = false);
    pair.world.advance(ms(30));
    assert_eq!(outcomes(&mut pair.a), [(1, Ok(Done::Placed))]);
    assert_eq!(content(&target), b"x");
}

#[test]
fn an_answer_without_a_receive_resets_the_retries() {
    let mut pair = Pair::new(1);
    let dead = |pair: &Pair, dead| pair.world.change(WIRE, |faults| faults.dead = dead);
    dead(&pair, true);
    post(&mut pair.a, Op::send(1, Slices::EMPTY));
    pair.world.advance(ms(320));
    dead(&pair, false);
    pair.world.advance(ms(35));
    dead(&pair, true);
    pair.world.advance(ms(200));
    post(&mut pair.b, Op::receive(2, Slices::EMPTY));
    dead(&pair, false);
    pair.settle();
    assert_eq!(outcomes(&mut pair.a), [(1, Ok(Done::Placed))]);
    assert_eq!(outcomes(&mut pair.b), [(2, received(0, None))]);
}

#[test]
fn a_killed_peer_is_detected_by_timeouts_and_returns_nothing() {
    let mut pair = Pair::new(1);
    pair.world.change(WIRE, |faults| faults.delay = ms(1));
    let (target, window) = pair.window(1, Rights::ALL);
    post(&mut pair.b, Op::receive(1, Slices::EMPTY));
    post(&mut pair.b, Op::send(2, Slices::EMPTY));
    pair.world.kill("b");
    post(&mut pair.b, Op::receive(3, Slices::EMPTY));
    post(&mut pair.a, Op::write(4, region_with(b"x").slice(..), window.at(0)));
    pair.settle();
    assert_eq!(outcomes(&mut pair.a), [(4, Err(Failure::PeerGone))]);
    pair.b.close();
    assert!(poll(&mut pair.b).is_empty());
    assert_eq!(content(&target), b"\0", "memory of a killed host changed");
    assert_eq!(probe(&mut Pair::on(&pair.world, WIRE)).0, Ok(Done::Placed), "its successor");
}

#[test]
fn a_peer_may_connect_later() {
    let world = World::new(1);
    let a = world.fabric("a", WIRE).prepare_lane(Side::Dial).unwrap();
    let b = world.fabric("b", WIRE).prepare_lane(Side::Accept).unwrap();
    let to_a = a.offer();
    let mut a = a.connect(&b.offer(), Duration::ZERO).unwrap();
    post(&mut a, Op::send(1, Slices::EMPTY));
    world.advance(ms(75));
    let mut b = b.connect(&to_a, Duration::ZERO).unwrap();
    post(&mut b, Op::receive(2, Slices::EMPTY));
    world.advance(ms(25));
    assert_eq!(outcomes(&mut a), [(1, Ok(Done::Placed))]);
    assert_eq!(outcomes(&mut b), [(2, received(0, None))]);
}
