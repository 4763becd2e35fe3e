//! Single cases, each of which once went wrong.

use std::collections::VecDeque;
use std::time::Duration;

use super::run::small;
use super::{RAILS, Stage};
use crate::half::register_software;
use crate::link::Config;
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights};
use crate::remote::Window;
use crate::sim::Faults;

fn region(length: usize, rights: Rights) -> Region {
    register_software(&Memory::allocate(length, Pages::Plain).unwrap(), rights)
}

/// Two ends, and what is over at each.
struct Duo {
    stage: Stage,
    done: [Vec<Completion>; 2],
}

type Outcomes = Vec<(u64, Result<Done, Failure>)>;

impl Duo {
    fn new(config: &Config) -> Self {
        let mut duo = Duo { stage: Stage::new(1, config, true), done: [Vec::new(), Vec::new()] };
        duo.until("both rails", |duo| {
            duo.stage.cores.iter().all(|core| core.rails().active().len() == 2)
        });
        duo
    }

    fn work(&mut self, end: usize) {
        let now = self.stage.world.now();
        self.stage.cores[end].attend(now);
        self.stage.cores[end].poll(now, &mut self.done[end]);
    }

    fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds * 2 {
            self.work(0);
            self.work(1);
            self.stage.world.advance(Duration::from_micros(500));
        }
    }

    fn until(&mut self, what: &str, over: impl Fn(&Duo) -> bool) {
        for _ in 0..2000 {
            if over(self) {
                return;
            }
            self.run(1);
        }
        panic!("{what}: {} {}", self.stage.cores[0].describe(), self.stage.cores[1].describe());
    }

    /// Lets the first end use a region of the second's.
    fn grant(&mut self, region: &Region) -> Window {
        let granted = self.stage.cores[1].grant(region).unwrap();
        let window = self.stage.cores[0].import(&granted).unwrap();
        self.run(20);
        window
    }

    fn post(&mut self, end: usize, ops: impl IntoIterator<Item = Op>) {
        let mut ops: VecDeque<Op> = ops.into_iter().collect();
        self.stage.cores[end].post(&mut ops);
        assert!(ops.is_empty(), "there is room for all");
    }

    fn outcomes(&self, end: usize) -> Outcomes {
        self.done[end].iter().map(|completion| (completion.token, completion.outcome)).collect()
    }
}

#[test]
fn a_region_dropped_under_a_long_write_hurts_nobody_else() {
    let mut duo = Duo::new(&small());
    let (open, source) = (region(1 << 20, Rights::ALL), region(1 << 20, Rights::NONE));
    let inbox = region(1 << 16, Rights::NONE);
    let window = duo.grant(&open);
    for rail in RAILS {
        duo.stage.world.change(rail, |faults| faults.delay = Duration::from_millis(2));
    }
    duo.post(0, [Op::write(1, source.slice(..200 << 10), window.at(0))]);
    duo.run(1);
    drop(open);
    duo.until("the refusal", |duo| !duo.done[0].is_empty());
    duo.post(1, (0..8).map(|token| Op::receive(token, inbox.slice(..8000))));
    duo.post(0, [Op::send(2, source.slice(..3000)), Op::send(3, source.slice(..3000))]);
    duo.until("the messages", |duo| duo.done[1].len() == 2 && duo.done[0].len() == 3);
    let placed = Ok(Done::Placed);
    assert_eq!(duo.outcomes(0), [(1, Err(Failure::Access)), (2, placed), (3, placed)]);
}

#[test]
fn a_region_whose_place_another_has_is_refused() {
    let mut duo = Duo::new(&small());
    let (old, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let granted = duo.stage.cores[1].grant(&old).unwrap();
    let window = duo.stage.cores[0].import(&granted).unwrap();
    drop(old);
    let new = region(4096, Rights::ALL);
    let new_window = duo.grant(&new);
    duo.post(
        0,
        [
            Op::write(1, source.slice(..), window.at(0)),
            Op::write(2, source.slice(..), new_window.at(0)),
        ],
    );
    duo.until("both", |duo| duo.done[0].len() == 2);
    let mut outcomes = duo.outcomes(0);
    outcomes.sort_by_key(|(token, _)| *token);
    assert_eq!(outcomes, [(1, Err(Failure::Access)), (2, Ok(Done::Placed))]);
    duo.stage.cores[0].import(&granted).expect_err("it is gone");
}

#[test]
fn the_immediate_data_of_a_refused_write_is_not_delivered() {
    let mut duo = Duo::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let inbox = region(4096, Rights::NONE);
    let window = duo.grant(&open);
    duo.post(1, [Op::receive(9, inbox.slice(..))]);
    drop(open);
    duo.post(0, [Op::write_imm(1, source.slice(..500), window.at(0), 77)]);
    duo.post(0, [Op::send(2, source.slice(..5))]);
    duo.until("both", |duo| duo.done[0].len() == 2 && duo.done[1].len() == 1);
    let received = Ok(Done::Received { length: 5, imm: None });
    assert_eq!(duo.outcomes(1), [(9, received)], "the message, and no immediate data");
    assert!(duo.outcomes(0).contains(&(1, Err(Failure::Access))));
}

#[test]
fn an_end_that_does_not_look_for_a_while_keeps_its_link() {
    let mut duo = Duo::new(&small());
    duo.stage.cores[1].fail_rail(0, "for the test");
    for _ in 0..4 {
        duo.work(1);
    }
    // The other end closes, rests, and begins anew, all before this one looks again.
    for _ in 0..200 {
        duo.work(0);
        duo.stage.world.advance(Duration::from_micros(500));
    }
    duo.until("both rails", |duo| {
        duo.stage.cores.iter().all(|core| core.rails().active().len() == 2)
    });
}

#[test]
fn an_operation_that_was_long_over_when_we_looked_kills_no_rail() {
    let mut duo = Duo::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let window = duo.grant(&open);
    for rail in RAILS {
        duo.stage.world.change(rail, |faults| faults.delay = Duration::from_micros(20));
    }
    duo.post(0, [Op::write(1, source.slice(..500), window.at(0))]);
    duo.work(0);
    duo.stage.world.advance(Duration::from_millis(100));
    duo.work(0);
    assert_eq!(duo.stage.cores[0].rails().active().len(), 2, "{}", duo.stage.cores[0].describe());
}

#[test]
fn a_lane_with_too_few_receives_is_refused_with_the_numbers() {
    let config = Config { messages: 2000, ..small() };
    let mut duo = Duo { stage: Stage::new(1, &config, true), done: [Vec::new(), Vec::new()] };
    duo.run(200);
    let core = &duo.stage.cores[0];
    assert!(!core.is_urgent() && core.rails().active().is_empty());
    assert!(
        core.obstacles().contains("1024 receives, and a link needs 2016"),
        "{}",
        core.obstacles()
    );
}

#[test]
fn messages_both_ways_over_a_lossy_wire_keep_their_places() {
    for seed in 0..40 {
        let timeout = Duration::from_secs(2);
        let config =
            Config { messages: 64, depth: 256, receives: 256, op_timeout: timeout, ..small() };
        let mut duo = Duo::new(&config);
        let faults = Faults { loss: 0.5, delay: Duration::from_micros(300), ..Faults::default() };
        for rail in RAILS {
            duo.stage.world.change(rail, |all| *all = faults);
        }
        let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
        for _ in 0..100 {
            for end in 0..2 {
                let mut ops: VecDeque<Op> = (0..8)
                    .flat_map(|token| {
                        [Op::receive(token, inbox.slice(..)), Op::send(token, source.slice(..8))]
                    })
                    .collect();
                duo.stage.cores[end].post(&mut ops);
            }
            duo.run(1);
            for core in &duo.stage.cores {
                assert!(core.ended().is_none(), "seed {seed}: {:?}", core.ended());
            }
        }
    }
}

#[test]
fn notes_and_credits_that_cross_do_not_block_each_other() {
    let mut duo = Duo::new(&small());
    duo.stage.world.change("r1", |faults| faults.dead = true);
    let words = [region(4096, Rights::ALL), region(4096, Rights::ALL)];
    let granted = [0, 1].map(|end| duo.stage.cores[end].grant(&words[end]).unwrap());
    let windows = [0, 1].map(|end| duo.stage.cores[end].import(&granted[1 - end]).unwrap());
    let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
    duo.run(20);
    duo.stage.world.change("r0", |faults| faults.delay = Duration::from_millis(4));
    for end in 0..2 {
        duo.post(end, (0..4).map(|token| Op::send(token, source.slice(..8))));
        duo.work(end);
    }
    duo.stage.world.advance(Duration::from_micros(4500));
    for (end, window) in windows.iter().enumerate() {
        let add = |token: u64| {
            let old = source.slice(8 * token as usize..8 * token as usize + 8);
            Op { token: 200 + token, work: Work::FetchAdd { old, at: window.at(0), add: 1 } }
        };
        duo.post(end, (0..24).map(add));
        for token in 0..4 {
            duo.work(end);
            duo.post(end, [Op::receive(300 + token, inbox.slice(..64))]);
        }
        duo.work(end);
    }
    duo.until("all", |duo| duo.done.iter().all(|done| done.len() == 4 + 24 + 4));
}

#[test]
fn what_was_said_before_the_goodbye_is_received_after_it() {
    let mut duo = Duo::new(&small());
    let (source, inbox) = (region(4096, Rights::NONE), region(4096, Rights::NONE));
    duo.post(0, [Op::send(1, source.slice(..8)), Op::send(2, source.slice(..9))]);
    duo.until("both sent", |duo| duo.done[0].len() == 2);
    duo.stage.cores[0].close();
    duo.run(20);
    duo.post(1, (3..6).map(|token| Op::receive(token, inbox.slice(..64))));
    duo.run(20);
    let received = |length| Ok(Done::Received { length, imm: None });
    let expected = [(3, received(8)), (4, received(9)), (5, Err(Failure::PeerGone))];
    assert_eq!(duo.outcomes(1), expected);
}

#[test]
fn an_end_that_finds_a_protocol_error_says_so() {
    let mut duo = Duo::new(&small());
    duo.stage.cores[1].fail_link(Failure::ProtocolError, "some invalid data");
    duo.run(5);
    let ended = duo.stage.cores[0].ended().expect("it received that");
    assert!(ended.why.contains("some invalid data"), "{}", ended.why);
}

/// What a hostile peer can make a lane report: immediate data where no message is, and a length of its own choosing.
#[test]
fn a_message_that_cannot_be_one_ends_the_link() {
    for (length, imm) in [(64, Some(7)), (usize::MAX, Some(7)), (usize::MAX, None)] {
        let mut duo = Duo::new(&small());
        let into = region(4096, Rights::NONE).slice(..);
        let work = Op::receive(0, into).work;
        let outcome = Ok(Done::Received { length, imm });
        duo.stage.cores[0].receive(0, Completion { token: 0, outcome, work });
        let ended = duo.stage.cores[0].ended().expect("it is over");
        assert!(ended.why.contains("a malformed message"), "{}", ended.why);
    }
}

#[test]
fn nobody_sleeps_while_slots_wait_to_be_posted() {
    let mut duo = Duo::new(&small());
    let (source, inbox) = (region(1 << 16, Rights::NONE), region(1 << 16, Rights::NONE));
    duo.post(0, [Op::send(1, source.slice(..512 * 40))]);
    duo.run(50);
    duo.post(1, [Op::receive(3, inbox.slice(..))]);
    let rails = duo.stage.cores[1].rails();
    for lane in (0..rails.live_count()).map(|place| rails.lane(rails.live(place)).unwrap()) {
        assert!(!lane.messages().has_idle(), "posting a receive posts the slots that it emptied");
    }
}

#[test]
fn a_peer_that_says_nothing_for_too_long_is_gone() {
    let mut duo = Duo::new(&small());
    let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
    let window = duo.grant(&open);
    for rail in RAILS {
        duo.stage.world.change(rail, |faults| faults.dead = true);
    }
    duo.post(0, [Op::write(1, source.slice(..8), window.at(0)), Op::send(2, source.slice(..8))]);
    // The other end does nothing any more: it neither fences nor sends.
    for _ in 0..4000 {
        duo.work(0);
        duo.stage.world.advance(Duration::from_millis(10));
    }
    let ended = duo.stage.cores[0].ended().expect("it is over");
    assert!(ended.why.contains("no message") || ended.why.contains("not closed"), "{}", ended.why);
    let mut outcomes = duo.outcomes(0);
    outcomes.sort_by_key(|(token, _)| *token);
    assert_eq!(outcomes, [(1, Err(Failure::Unknown)), (2, Err(Failure::Unknown))]);
}

#[test]
fn a_device_that_does_not_answer_for_long_leaves_the_link_on_the_lesser_rail() {
    for end in 0..2 {
        let config = small();
        let mut duo = Duo { stage: Stage::new(1, &config, true), done: [Vec::new(), Vec::new()] };
        duo.stage.mute.lock().unwrap()[end] = config.silence * 3;
        duo.until("the lesser rail", |duo| {
            duo.stage.cores.iter().all(|core| core.rails().active().len() == 1)
        });
        let (open, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
        let window = duo.grant(&open);
        let mut writes = 0;
        while duo.stage.world.now() < config.silence * 2 {
            duo.run(1000);
            writes += 1;
            duo.post(0, [Op::write(writes, source.slice(..8), window.at(0))]);
        }
        duo.until("all writes", |duo| duo.done[0].len() as u64 == writes);
        assert!(duo.done[0].iter().all(|completion| completion.outcome.is_ok()));
        // It answers, too late for those who asked, and at once from now on.
        duo.stage.mute.lock().unwrap()[end] = Duration::ZERO;
        while duo.stage.cores.iter().any(|core| core.rails().active().len() < 2) {
            let late = duo.stage.world.now() > config.silence * 4;
            assert!(!late, "{} {}", duo.stage.cores[0].describe(), duo.stage.cores[1].describe());
            duo.run(10);
        }
    }
}
