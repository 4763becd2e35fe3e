//! Scenarios: each is run with many seeds.

use super::run::{Run, tiny};
use crate::link::EventKind;

/// The seeds to run.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("WIRELANE_SEED") {
        return seed..seed + 1;
    }
    let begin = number("WIRELANE_FIRST_SEED").unwrap_or(0);
    begin..begin + number("WIRELANE_SIMULATIONS").unwrap_or(few)
}

/// Prints the seed of a run that failed.
struct PrintSeed(u64);

impl Drop for PrintSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: reproduce with WIRELANE_SEED={}", self.0, self.0);
        }
    }
}

#[test]
fn without_faults_everything_takes_effect_once() {
    for seed in seeds(50) {
        let _print_seed = PrintSeed(seed);
        let mut run = Run::new(seed);
        for _ in 0..300 {
            run.step(true);
        }
        run.finish();
    }
}

#[test]
fn with_failing_rails_everything_takes_effect_once() {
    for seed in seeds(500) {
        let _print_seed = PrintSeed(seed);
        let mut run = Run::new(seed);
        for _ in 0..600 {
            if run.random.one_in(25) {
                run.sim.change_faults(&mut run.random);
            }
            run.step(true);
        }
        run.finish();
    }
}

#[test]
fn the_pause_of_a_flapping_rail_grows() {
    for seed in seeds(20) {
        let _print_seed = PrintSeed(seed);
        let mut run = Run::new(seed);
        for step in 0..1500 {
            let dead = step / 40 % 2 == 1;
            for rail in ["r0", "r1"] {
                run.sim.world.change(rail, |faults| faults.dead = dead);
            }
            run.step(true);
        }
        // It was alive eighteen times.
        let core = &run.sim.cores[0];
        let ups = |rail: &str| {
            let events = core.event_log().last();
            events.filter(|event| event.what == EventKind::RailUp && event.rail == rail).count()
        };
        assert!((2..12).contains(&ups("r0")), "{}", core.describe());
        run.finish();
    }
}

#[test]
fn with_full_queues_everything_takes_effect_once() {
    for seed in seeds(200) {
        let _print_seed = PrintSeed(seed);
        let mut run = Run::with(seed, &tiny(seed));
        for _ in 0..400 {
            run.disturb();
            run.step(true);
        }
        run.finish();
    }
}

#[test]
fn a_lost_peer_leaves_only_unknown_outcomes() {
    for seed in seeds(500) {
        let _print_seed = PrintSeed(seed);
        let mut run = Run::with(seed, &tiny(seed / 2));
        for _ in 0..run.random.below(300) {
            run.disturb();
            run.step(true);
        }
        run.lose_connection();
    }
}
