//! What is tried.

use super::run::{History, narrow};
use crate::link::Happening;

/// How many histories, and which.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("WIRELANE_SEED") {
        return seed..seed + 1;
    }
    let begin = number("WIRELANE_FIRST_SEED").unwrap_or(0);
    begin..begin + number("WIRELANE_TRIALS").unwrap_or(few)
}

/// Says the seed of a history that went wrong.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: WIRELANE_SEED={} tells this history again", self.0, self.0);
        }
    }
}

#[test]
fn nothing_goes_wrong_and_everything_happens_once() {
    for seed in seeds(50) {
        let _named = Named(seed);
        let mut history = History::new(seed);
        for _ in 0..300 {
            history.moment(true);
        }
        history.conclude();
    }
}

#[test]
fn rails_die_and_come_back_and_everything_happens_once() {
    for seed in seeds(1000) {
        let _named = Named(seed);
        let mut history = History::new(seed);
        for _ in 0..600 {
            if history.dice.one_in(25) {
                history.stage.trouble(&mut history.dice);
            }
            history.moment(true);
        }
        history.conclude();
    }
}

#[test]
fn a_rail_that_comes_and_goes_is_left_alone_for_longer_each_time() {
    for seed in seeds(20) {
        let _named = Named(seed);
        let mut history = History::new(seed);
        for turn in 0..1500 {
            let dead = turn / 40 % 2 == 1;
            for rail in ["r0", "r1"] {
                history.stage.world.change(rail, |faults| faults.dead = dead);
            }
            history.moment(true);
        }
        // It was alive eighteen times.
        let core = &history.stage.cores[0];
        let ups = |rail: &str| {
            let events = core.journal().last();
            events.filter(|event| event.what == Happening::RailUp && event.rail == rail).count()
        };
        assert!((2..12).contains(&ups("r0")), "{}", core.describe());
        history.conclude();
    }
}

#[test]
fn where_there_is_no_room_everything_waits_its_turn() {
    for seed in seeds(400) {
        let _named = Named(seed);
        let mut history = History::with(seed, &narrow(seed));
        for _ in 0..400 {
            history.harass();
            history.moment(true);
        }
        history.conclude();
    }
}

#[test]
fn a_lost_peer_leaves_nothing_undecided_without_saying_so() {
    for seed in seeds(1000) {
        let _named = Named(seed);
        let mut history = History::with(seed, &narrow(seed / 2));
        for _ in 0..history.dice.below(300) {
            history.harass();
            history.moment(true);
        }
        history.end_in_loss();
    }
}
