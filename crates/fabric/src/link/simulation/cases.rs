//! Regression tests.

use std::collections::VecDeque;
use std::time::Duration;

use super::run::small;
use super::{RAILS, SimLink};
use crate::link::{Config, EventKind};
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights};
use crate::remote::Window;
use crate::setup::register_software;
use crate::sim::Faults;

fn region(length: usize, rights: Rights) -> Region {
    register_software(&Memory::allocate(length, Pages::Plain).unwrap(), rights)
}

/// Two ends, with the completions of each.
struct Pair {
    sim: SimLink,
    done: [Vec<Completion>; 2],
}

type Outcomes = Vec<(u64, Result<Done, Failure>)>;

impl Pair {
    fn new(config: &Config) -> Self {
        let mut pair = Pair { sim: SimLink::new(1, config, true), done: [Vec::new(), Vec::new()] };
        pair.until("both rails", |pair| {
            pair.sim.cores.iter().all(|core| core.rails().active().len() == 2)
        });
        pair
    }

    fn work(&mut self, end: usize) {
        let now = self.sim.world.now();
        self.sim.cores[end].maintain(now);
        self.sim.cores[end].poll(now, &mut self.done[end]);
    }

    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds * 2 {
            self.work(0);
            self.work(1);
            self.sim.world.advance(Duration::from_micros(500));
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Pair) -> bool) {
        for _ in 0..2000 {
            if done(self) {
                return;
            }
            self.run(1);
        }
        panic!("{what}: {} {}", self.sim.cores[0].describe(), self.sim.cores[1].describe());
    }

    /// Grants a region of the second end to the first.
    fn grant(&mut self, region: &Region) -> Window {
        let granted = self.sim.cores[1].grant(region).unwrap();
        let window = self.sim.cores[0].import(&granted).unwrap();
        self.run(20);
        window
    }

    fn post(&mut self, end: usize, ops: impl IntoIterator<Item = Op>) {
        let mut ops: VecDeque<Op> = ops.into_iter().collect();
        self.sim.cores[end].post(&mut ops);
        assert!(ops.is_empty(), "all are accepted");
    }

    fn outcomes(&self, end: usize) -> Outcomes {
        self.done[end].iter().map(|completion| (completion.op_id, completion.outcome)).collect()
    }
}

#[test]
fn dropping_the_region_of_a_long_write_fails_only_that_write() {
    let mut pair = Pair::new(&small());
    let (open, source) = (region(1 << 20, Rights::ALL), region(1 << 20, Rights::NONE));
    let inbox = region(1 << 16, Rights::NONE);
    let window = pair.grant(&open);
    for rail in RAILS {
        pair.sim.world.change(rail, |faults| faults.delay = Duration::from_millis(2));
    }
    pair.post(0, [Op::write(1, source.slice(..200 << 10), window.at(0))]);
    pair.run(1);
    drop(open);
    pair.until("the refusal", |pair| !pair.done[0].is_empty());
    pair.post(1, (0..8).map(|op_id| Op::receive(op_id, inbox.slice(..8000))));
    pair.post(0, [Op::send(2, source.slice(..3000)), Op::send(3, source.slice(..3000))]);
    pair.until("the messages", |pair| pair.done[1].len() == 2 && pair.done[0].len() == 3);
    let placed = Ok(Done::Placed);
    assert_eq!(pair.outcomes(0), [(1, Err(Failure::Access)), (2, placed), (3, placed)]);
}

#[test]
fn a_region_whose_index_is_reused_is_refused() {
    let mut pair = Pair::new(&small());
    let (old, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let granted = pair.sim.cores[1].grant(&old).unwrap();
    let window = pair.sim.cores[0].import(&granted).unwrap();
    drop(old);
    let new = region(4096, Rights::ALL);
    let new_window = pair.grant(&new);
    pair.post(
        0,
        [
            Op::write(1, source.slice(..), window.at(0)),
            Op::write(2, source.slice(..), new_window.at(0)),
        ],
    );
    pair.until("both", |pair| pair.done[0].len() == 2);
    let mut outcomes = pair.outcomes(0);
    outcomes.sort_by_key(|(op_id, _)| *op_id);
    assert_eq!(outcomes, [(1, Err(Failure::Access)), (2, Ok(Done::Placed))]);
    pair.sim.cores[0].import(&granted).expect_err("it is gone");
}

#[test]
fn the_immediate_data_of_a_refused_write_is_not_delivered() {
    let mut pair = Pair::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let inbox = region(4096, Rights::NONE);
    let window = pair.grant(&open);
    pair.post(1, [Op::receive(9, inbox.slice(..))]);
    drop(open);
    pair.post(0, [Op::write_imm(1, source.slice(..500), window.at(0), 77)]);
    pair.post(0, [Op::send(2, source.slice(..5))]);
    pair.until("both", |pair| pair.done[0].len() == 2 && pair.done[1].len() == 1);
    let received = Ok(Done::Received { length: 5, imm: None });
    assert_eq!(pair.outcomes(1), [(9, received)], "the message, and no immediate data");
    assert!(pair.outcomes(0).contains(&(1, Err(Failure::Access))));
}

#[test]
fn an_end_that_does_not_poll_for_a_while_keeps_its_link() {
    let mut pair = Pair::new(&small());
    pair.sim.cores[1].fail_rail(0, "for the test");
    for _ in 0..4 {
        pair.work(1);
    }
    // The other end closes, pauses and starts again before this one polls.
    for _ in 0..200 {
        pair.work(0);
        pair.sim.world.advance(Duration::from_micros(500));
    }
    pair.until("both rails", |pair| {
        pair.sim.cores.iter().all(|core| core.rails().active().len() == 2)
    });
}

#[test]
fn a_late_poll_of_a_completed_operation_does_not_fail_the_rail() {
    let mut pair = Pair::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let window = pair.grant(&open);
    for rail in RAILS {
        pair.sim.world.change(rail, |faults| faults.delay = Duration::from_micros(20));
    }
    pair.post(0, [Op::write(1, source.slice(..500), window.at(0))]);
    pair.work(0);
    pair.sim.world.advance(Duration::from_millis(100));
    pair.work(0);
    assert_eq!(pair.sim.cores[0].rails().active().len(), 2, "{}", pair.sim.cores[0].describe());
}

#[test]
fn a_lane_with_too_few_receives_is_refused_with_the_numbers() {
    let config = Config { message_slots: 2000, ..small() };
    let mut pair = Pair { sim: SimLink::new(1, &config, true), done: [Vec::new(), Vec::new()] };
    pair.run(200);
    let core = &pair.sim.cores[0];
    assert!(!core.is_urgent() && core.rails().active().is_empty());
    assert!(
        core.rail_problems().contains("1024 receives, a link needs 2016"),
        "{}",
        core.rail_problems()
    );
}

#[test]
fn messages_both_ways_over_a_lossy_wire_do_not_end_the_link() {
    for seed in 0..40 {
        let timeout = Duration::from_secs(2);
        let config = Config {
            message_slots: 64,
            depth: 256,
            max_receives: 256,
            op_timeout: timeout,
            ..small()
        };
        let mut pair = Pair::new(&config);
        let faults = Faults { loss: 0.5, delay: Duration::from_micros(300), ..Faults::default() };
        for rail in RAILS {
            pair.sim.world.change(rail, |all| *all = faults);
        }
        let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
        for _ in 0..100 {
            for end in 0..2 {
                let mut ops: VecDeque<Op> = (0..8)
                    .flat_map(|op_id| {
                        [Op::receive(op_id, inbox.slice(..)), Op::send(op_id, source.slice(..8))]
                    })
                    .collect();
                pair.sim.cores[end].post(&mut ops);
            }
            pair.run(1);
            for core in &pair.sim.cores {
                assert!(core.ended().is_none(), "seed {seed}: {:?}", core.ended());
            }
        }
    }
}

#[test]
fn crossing_internal_messages_and_credits_do_not_block_each_other() {
    let mut pair = Pair::new(&small());
    pair.sim.world.change("r1", |faults| faults.dead = true);
    let words = [region(4096, Rights::ALL), region(4096, Rights::ALL)];
    let granted = [0, 1].map(|end| pair.sim.cores[end].grant(&words[end]).unwrap());
    let windows = [0, 1].map(|end| pair.sim.cores[end].import(&granted[1 - end]).unwrap());
    let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
    pair.run(20);
    pair.sim.world.change("r0", |faults| faults.delay = Duration::from_millis(4));
    for end in 0..2 {
        pair.post(end, (0..4).map(|op_id| Op::send(op_id, source.slice(..8))));
        pair.work(end);
    }
    pair.sim.world.advance(Duration::from_micros(4500));
    for (end, window) in windows.iter().enumerate() {
        let add = |op_id: u64| {
            let old = source.slice(8 * op_id as usize..8 * op_id as usize + 8);
            Op { op_id: 200 + op_id, work: Work::FetchAdd { old, at: window.at(0), add: 1 } }
        };
        pair.post(end, (0..24).map(add));
        for op_id in 0..4 {
            pair.work(end);
            pair.post(end, [Op::receive(300 + op_id, inbox.slice(..64))]);
        }
        pair.work(end);
    }
    pair.until("all", |pair| pair.done.iter().all(|done| done.len() == 4 + 24 + 4));
}

#[test]
fn messages_sent_before_the_end_are_received_after_it() {
    let mut pair = Pair::new(&small());
    let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
    pair.post(0, [Op::send(1, source.slice(..8)), Op::send(2, source.slice(..9))]);
    pair.until("both sent", |pair| pair.done[0].len() == 2);
    pair.sim.cores[0].close();
    pair.run(20);
    pair.post(1, (3..6).map(|op_id| Op::receive(op_id, inbox.slice(..64))));
    pair.run(20);
    let received = |length| Ok(Done::Received { length, imm: None });
    let expected = [(3, received(8)), (4, received(9)), (5, Err(Failure::PeerGone))];
    assert_eq!(pair.outcomes(1), expected);
}

#[test]
fn a_link_made_without_rdma_uses_it_when_one_end_gets_it() {
    for appears_at_peer in [false, true] {
        let sim = SimLink::without_rdma(1, &small(), appears_at_peer);
        let mut pair = Pair { sim, done: [Vec::new(), Vec::new()] };
        pair.until("the worse rail", |pair| {
            pair.sim.cores.iter().all(|core| core.rails().active().len() == 1)
        });
        let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
        let window = pair.grant(&open);
        pair.until("both better rails", |pair| {
            pair.sim.cores.iter().all(|core| core.rails().active().len() == 2)
        });
        pair.run(1000);
        assert_eq!(pair.sim.cores[0].rails().count(), RAILS.len(), "none is added twice");
        pair.post(0, [Op::write(1, source.slice(..500), window.at(0))]);
        pair.until("the write", |pair| pair.done[0].len() == 1);
        assert_eq!(pair.outcomes(0), [(1, Ok(Done::Placed))]);
        let plan = pair.sim.cores[0].take_new_plan().expect("for the status");
        assert_eq!(plan.theirs.is_some(), appears_at_peer);
    }
}

/// The number of events of a kind at an end.
fn count(pair: &Pair, end: usize, what: EventKind) -> u64 {
    pair.sim.cores[end].event_log().count(what)
}

/// An end that sends while the other one closes: its lanes fail before the goodbye arrives.
fn lanes_fail_before_the_goodbye(delay: Duration) -> Pair {
    let mut pair = Pair::new(&small());
    pair.sim.channel.lock().unwrap().delay = delay;
    pair.sim.cores[0].close();
    let source = region(4096, Rights::NONE);
    pair.post(1, (0..4).map(|op_id| Op::send(op_id, source.slice(..8))));
    pair.until("the lanes have failed", |pair| pair.sim.cores[1].rails().active().is_empty());
    assert!(pair.sim.cores[1].ended().is_none(), "the goodbye is still in flight");
    pair
}

#[test]
fn a_goodbye_after_the_lanes_have_failed_is_no_failure_of_a_rail() {
    let mut pair = lanes_fail_before_the_goodbye(Duration::from_millis(200));
    let switches = count(&pair, 1, EventKind::Switch);
    pair.until("the goodbye", |pair| pair.sim.cores[1].ended().is_some());
    pair.run(1000);
    let counts = [EventKind::RailDown, EventKind::Closed, EventKind::Ended]
        .map(|what| count(&pair, 1, what));
    assert_eq!(counts, [0, 1, 0], "{}", pair.sim.cores[1].describe());
    assert_eq!(count(&pair, 1, EventKind::Switch), switches);
}

#[test]
fn lanes_that_fail_without_a_goodbye_are_recorded() {
    let mut pair = lanes_fail_before_the_goodbye(Duration::from_secs(5));
    pair.until("the time for a goodbye is over", |pair| count(pair, 1, EventKind::RailDown) == 2);
    let mut pair = lanes_fail_before_the_goodbye(Duration::from_secs(5));
    pair.sim.channel.lock().unwrap().cut = true;
    pair.run(5);
    let counts = [EventKind::RailDown, EventKind::Ended].map(|what| count(&pair, 1, what));
    assert_eq!(counts, [2, 1], "{}", pair.sim.cores[1].describe());
}

#[test]
fn a_protocol_error_is_reported_to_the_peer() {
    let mut pair = Pair::new(&small());
    pair.sim.cores[1].fail_link(Failure::ProtocolError, "some invalid data");
    pair.run(5);
    let ended = pair.sim.cores[0].ended().expect("the reason was received");
    assert!(ended.why.contains("some invalid data"), "{}", ended.why);
}

/// A misbehaving peer can make a lane report immediate data without a message, and an arbitrary length.
#[test]
fn a_malformed_message_ends_the_link() {
    for (length, imm) in [(64, Some(7)), (usize::MAX, Some(7)), (usize::MAX, None)] {
        let mut pair = Pair::new(&small());
        let into = region(4096, Rights::NONE).slice(..);
        let work = Op::receive(0, into).work;
        let outcome = Ok(Done::Received { length, imm });
        pair.sim.cores[0].receive(0, Completion { op_id: 0, outcome, work });
        let ended = pair.sim.cores[0].ended().expect("it has ended");
        assert!(ended.why.contains("malformed message"), "{}", ended.why);
    }
}

#[test]
fn posting_a_receive_reposts_freed_slots() {
    let mut pair = Pair::new(&small());
    let (source, inbox) = (region(1 << 16, Rights::NONE), region(1 << 16, Rights::NONE));
    pair.post(0, [Op::send(1, source.slice(..512 * 40))]);
    pair.run(50);
    pair.post(1, [Op::receive(3, inbox.slice(..))]);
    let rails = pair.sim.cores[1].rails();
    for lane in
        (0..rails.lane_count()).map(|index| rails.lane(rails.rail_with_lane(index)).unwrap())
    {
        assert!(
            lane.slots().is_none_or(|slots| !slots.should_post()),
            "slots that the receive freed are posted"
        );
    }
}

#[test]
fn a_silent_peer_is_lost() {
    let mut pair = Pair::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let window = pair.grant(&open);
    for rail in RAILS {
        pair.sim.world.change(rail, |faults| faults.dead = true);
    }
    pair.post(0, [Op::write(1, source.slice(..8), window.at(0)), Op::send(2, source.slice(..8))]);
    // The other end does nothing: it neither fences nor sends.
    for _ in 0..4000 {
        pair.work(0);
        pair.sim.world.advance(Duration::from_millis(10));
    }
    let ended = pair.sim.cores[0].ended().expect("it has ended");
    assert!(ended.why.contains("no message") || ended.why.contains("not closed"), "{}", ended.why);
    let mut outcomes = pair.outcomes(0);
    outcomes.sort_by_key(|(op_id, _)| *op_id);
    assert_eq!(outcomes, [(1, Err(Failure::Unknown)), (2, Err(Failure::Unknown))]);
}

#[test]
fn a_device_that_does_not_answer_leaves_the_link_on_the_worse_rail() {
    for end in 0..2 {
        let config = small();
        let mut pair = Pair { sim: SimLink::new(1, &config, true), done: [Vec::new(), Vec::new()] };
        pair.sim.answer_delay.lock().unwrap()[end] = config.peer_timeout * 3;
        pair.until("the worse rail", |pair| {
            pair.sim.cores.iter().all(|core| core.rails().active().len() == 1)
        });
        let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
        let window = pair.grant(&open);
        let mut writes = 0;
        while pair.sim.world.now() < config.peer_timeout * 2 {
            pair.run(1000);
            writes += 1;
            pair.post(0, [Op::write(writes, source.slice(..8), window.at(0))]);
        }
        pair.until("all writes", |pair| pair.done[0].len() as u64 == writes);
        assert!(pair.done[0].iter().all(|completion| completion.outcome.is_ok()));
        // It answers, too late for the pending tasks, and immediately from now on.
        pair.sim.answer_delay.lock().unwrap()[end] = Duration::ZERO;
        while pair.sim.cores.iter().any(|core| core.rails().active().len() < 2) {
            let late = pair.sim.world.now() > config.peer_timeout * 4;
            assert!(!late, "{} {}", pair.sim.cores[0].describe(), pair.sim.cores[1].describe());
            pair.run(10);
        }
    }
}
