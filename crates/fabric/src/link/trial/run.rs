//! One history: both ends work, things go wrong, and at the end everything happened once.

use std::time::Duration;

use super::ends::End;
use super::{Dice, Stage};
use crate::link::Config;

pub(super) struct History {
    pub(super) stage: Stage,
    pub(super) ends: [End; 2],
    pub(super) dice: Dice,
    /// The control connection is lost, or will be: operations may come back undecided.
    pub(super) doomed: bool,
    /// Until when each end does something else, or posts no receives.
    pub(super) busy: [Duration; 2],
    pub(super) stingy: [Duration; 2],
}

/// Small, so that everything is cut, waits and wraps.
pub(super) fn small() -> Config {
    Config {
        chunk: 1024,
        window: 8192,
        messages: 4,
        room: 512,
        depth: 64,
        receives: 64,
        regions: 16,
        op_timeout: Duration::from_millis(60),
        settle: Duration::from_millis(30),
        longest_pause: Duration::from_millis(300),
        heartbeat: Duration::from_millis(50),
        silence: Duration::from_secs(30),
        without_rails: Duration::from_secs(30),
    }
}

/// So small, in one way or another, that something has no room.
pub(super) fn narrow(seed: u64) -> Config {
    let config = small();
    match seed % 8 {
        0 => Config { messages: 1, ..config },
        1 => Config { room: 64, ..config },
        2 => Config { depth: 1, ..config },
        3 => Config { messages: 1, room: 64, depth: 3, receives: 2, ..config },
        4 => Config { receives: 1, ..config },
        5 => Config { chunk: 64, window: 100, ..config },
        6 => Config { messages: 64, ..config },
        _ => config,
    }
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        Self::with(seed, &small())
    }

    pub(super) fn with(seed: u64, config: &Config) -> Self {
        let mut dice = Dice::new(seed);
        let ordered = dice.one_in(2);
        let mut stage = Stage::new(seed, config, ordered);
        let mut ends = [End::new(), End::new()];
        for (at, end) in [0, 1].into_iter().zip([1, 0]) {
            let [open, library] = ends[end].grant(&mut stage.cores[end]);
            ends[at].window = Some(stage.cores[at].import(&open).unwrap());
            ends[at].readable = Some(stage.cores[at].import(&library).unwrap());
        }
        History {
            stage,
            ends,
            dice,
            doomed: false,
            busy: [Duration::ZERO; 2],
            stingy: [Duration::ZERO; 2],
        }
    }

    /// Something goes wrong, or an end is not there for a while.
    pub(super) fn harass(&mut self) {
        if self.dice.one_in(25) {
            self.stage.trouble(&mut self.dice);
        }
        let now = self.stage.world.now();
        for absent in [&mut self.busy, &mut self.stingy] {
            if self.dice.one_in(60) {
                let end = self.dice.below(2);
                absent[end] = now + Duration::from_millis(self.dice.below(250) as u64);
            }
        }
    }

    /// A moment: both ends work, then time passes.
    pub(super) fn moment(&mut self, working: bool) {
        for at in 0..2 {
            if working && self.dice.one_in(3) {
                let before = self.ends[at].next;
                self.ends[at].ask(&mut self.dice);
                if self.ends[at].next > before {
                    let cells = self.ends[at].asked[&before].cells.clone();
                    if self.ends[at].writes > 0 {
                        self.ends[1 - at].unstamp(&cells);
                    }
                }
            }
            let generous = self.stage.world.now() >= self.stingy[at] && !self.ends[at].closing;
            let wanted = self.ends[at].receives < 6 && generous;
            if wanted && (self.dice.one_in(4) || !working) {
                self.ends[at].offer_receive();
            }
            let now = self.stage.world.now();
            let core = &mut self.stage.cores[at];
            // An end may be busy with something else for a while.
            if self.dice.one_in(5) || now < self.busy[at] {
                continue;
            }
            core.attend(now);
            core.post(&mut self.ends[at].todo);
            core.post(&mut self.ends[at].trays_out);
            let mut done = Vec::new();
            core.poll(now, &mut done);
            let [a, b] = &mut self.ends;
            let (end, peer) = if at == 0 { (a, b) } else { (b, a) };
            for completion in done {
                match self.doomed {
                    true => end.over_or_lost(completion, peer),
                    false => end.over(completion, peer),
                }
            }
        }
        let step = Duration::from_micros(100 * (1 + self.dice.below(20)) as u64);
        self.stage.world.advance(step);
        self.ends.iter().for_each(End::check_stamps);
    }

    /// The control connection is lost: everything comes back, and soon.
    pub(super) fn end_in_loss(&mut self) {
        self.doomed = true;
        self.stage.wires.lock().unwrap().cut = true;
        for _ in 0..2000 {
            self.moment(false);
            // What is posted now is given back too.
            let receives = self.ends.iter().map(|end| end.receives).sum::<usize>();
            let asked = self.ends.iter().map(|end| end.asked.len()).sum::<usize>();
            if asked == 0 && receives == 0 {
                return self.check_loss();
            }
            self.ends.iter_mut().for_each(|end| end.closing = true);
        }
        for core in &self.stage.cores {
            eprintln!("{}", core.describe());
        }
        panic!("something did not come back");
    }

    /// Nothing happened twice, nothing that was told to have happened did not, and what did not happen was
    /// not received.
    fn check_loss(&mut self) {
        self.stage.world.advance(Duration::from_secs(2));
        let [a, b] = &self.ends;
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(to.received, from.sent[..to.received.len()], "in order, from the first on");
            let mut notices = to.notices.clone();
            notices.sort_unstable();
            notices.dedup();
            assert_eq!(notices.len(), to.notices.len(), "no immediate data twice");
            let count = to.open.memory().load(super::ends::CELL * super::ends::CELLS);
            let (sure, maybe) = (from.added.len() as u64, from.unknown_additions);
            assert!((sure..=sure + maybe).contains(&count), "{sure} to {maybe} more, not {count}");
            for token in &from.undone {
                assert!(
                    !to.received.contains(token) && !to.notices.contains(token),
                    "{token} was undone"
                );
            }
        }
    }

    /// Heals the world and lets everything end.
    pub(super) fn conclude(&mut self) {
        self.stage.heal();
        for _ in 0..20_000 {
            self.moment(false);
            let [a, b] = &self.ends;
            let arrived = a.received.len() == b.sent.len()
                && b.received.len() == a.sent.len()
                && a.notices.len() == b.noted.len()
                && b.notices.len() == a.noted.len();
            if a.asked.is_empty() && b.asked.is_empty() && arrived {
                return self.check();
            }
        }
        for core in &self.stage.cores {
            eprintln!("{}", core.describe());
        }
        let [a, b] = &self.ends;
        panic!(
            "stuck: {} and {} operations; messages {} of {}, {} of {}; immediate data {} of {}, {} of {}",
            a.asked.len(),
            b.asked.len(),
            a.received.len(),
            b.sent.len(),
            b.received.len(),
            a.sent.len(),
            a.notices.len(),
            b.noted.len(),
            b.notices.len(),
            a.noted.len(),
        );
    }

    fn check(&mut self) {
        // What is still in the air lands now, where it can.
        self.stage.world.advance(Duration::from_secs(2));
        self.ends.iter().for_each(End::check_stamps);
        let [a, b] = &self.ends;
        for (from, to) in [(a, b), (b, a)] {
            let mut received = to.received.clone();
            assert_eq!(received, from.sent, "every message once, in order");
            received.clone_from(&to.notices);
            received.sort_unstable();
            assert_eq!(received, from.noted, "all immediate data once");
            let count = to.open.memory().load(super::ends::CELL * super::ends::CELLS);
            let mut added = from.added.clone();
            added.sort_unstable();
            assert_eq!(added, (0..count).collect::<Vec<u64>>(), "every addition once");
        }
    }
}
