//! One run: both ends post operations, faults occur, and at the end every operation has taken effect once.

use std::time::Duration;

use super::ends::End;
use super::{Random, SimLink};
use crate::link::Config;

pub(super) struct Run {
    pub(super) sim: SimLink,
    pub(super) ends: [End; 2],
    pub(super) random: Random,
    /// Whether the control connection is lost: operations may have unknown outcomes.
    pub(super) lost: bool,
    /// Until when each end does not poll, or posts no receives.
    pub(super) busy: [Duration; 2],
    pub(super) no_receives: [Duration; 2],
}

/// Small limits, so that operations are split and queues fill up.
pub(super) fn small() -> Config {
    Config {
        max_chunk: 1024,
        max_in_flight: 8192,
        message_slots: 4,
        max_payload: 512,
        depth: 64,
        max_receives: 64,
        max_regions: 16,
        op_timeout: Duration::from_millis(60),
        retry_delay: Duration::from_millis(30),
        max_retry_pause: Duration::from_millis(300),
        heartbeat: Duration::from_millis(50),
        peer_timeout: Duration::from_secs(30),
        no_rail_timeout: Duration::from_secs(30),
    }
}

/// Even smaller limits, a different one for each seed.
pub(super) fn tiny(seed: u64) -> Config {
    let config = small();
    match seed % 8 {
        0 => Config { message_slots: 1, ..config },
        1 => Config { max_payload: 64, ..config },
        2 => Config { depth: 1, ..config },
        3 => Config { message_slots: 1, max_payload: 64, depth: 3, max_receives: 2, ..config },
        4 => Config { max_receives: 1, ..config },
        5 => Config { max_chunk: 64, max_in_flight: 100, ..config },
        6 => Config { message_slots: 64, ..config },
        _ => config,
    }
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        Self::with(seed, &small())
    }

    pub(super) fn with(seed: u64, config: &Config) -> Self {
        let mut random = Random::new(seed);
        let ordered = random.one_in(2);
        let mut sim = SimLink::new(seed, config, ordered);
        let mut ends = [End::new(), End::new()];
        for (at, end) in [0, 1].into_iter().zip([1, 0]) {
            let [open, read_only] = ends[end].grant(&mut sim.cores[end]);
            ends[at].window = Some(sim.cores[at].import(&open).unwrap());
            ends[at].readable = Some(sim.cores[at].import(&read_only).unwrap());
        }
        Run {
            sim,
            ends,
            random,
            lost: false,
            busy: [Duration::ZERO; 2],
            no_receives: [Duration::ZERO; 2],
        }
    }

    /// A fault occurs, or an end pauses for a while.
    pub(super) fn disturb(&mut self) {
        if self.random.one_in(25) {
            self.sim.change_faults(&mut self.random);
        }
        let now = self.sim.world.now();
        for absent in [&mut self.busy, &mut self.no_receives] {
            if self.random.one_in(60) {
                let end = self.random.below(2);
                absent[end] = now + Duration::from_millis(self.random.below(250) as u64);
            }
        }
    }

    /// One step: both ends work, then time passes.
    pub(super) fn step(&mut self, working: bool) {
        for at in 0..2 {
            if working && self.random.one_in(3) {
                let before = self.ends[at].next;
                self.ends[at].queue_random(&mut self.random);
                if self.ends[at].next > before {
                    let cells = self.ends[at].pending[&before].cells.clone();
                    if self.ends[at].writes > 0 {
                        self.ends[1 - at].unstamp(&cells);
                    }
                }
            }
            let posts_receives =
                self.sim.world.now() >= self.no_receives[at] && !self.ends[at].closing;
            let wanted = self.ends[at].receives < 6 && posts_receives;
            if wanted && (self.random.one_in(4) || !working) {
                self.ends[at].queue_receive();
            }
            let now = self.sim.world.now();
            let core = &mut self.sim.cores[at];
            // An end may be busy for a while.
            if self.random.one_in(5) || now < self.busy[at] {
                continue;
            }
            core.maintain(now);
            core.post(&mut self.ends[at].todo);
            core.post(&mut self.ends[at].receive_ops);
            let mut done = Vec::new();
            core.poll(now, &mut done);
            assert!(core.spare_buffers() <= 64, "buffers pile up");
            let [a, b] = &mut self.ends;
            let (end, peer) = if at == 0 { (a, b) } else { (b, a) };
            for completion in done {
                match self.lost {
                    true => end.check_lost_completion(completion, peer),
                    false => end.check_completion(completion, peer),
                }
            }
        }
        let step = Duration::from_micros(100 * (1 + self.random.below(20)) as u64);
        self.sim.world.advance(step);
        self.ends.iter().for_each(End::check_stamps);
    }

    /// Cuts the control connection: every operation completes soon.
    pub(super) fn lose_connection(&mut self) {
        self.lost = true;
        self.sim.channel.lock().unwrap().cut = true;
        for _ in 0..2000 {
            self.step(false);
            // Operations posted now complete too.
            let receives = self.ends.iter().map(|end| end.receives).sum::<usize>();
            let pending = self.ends.iter().map(|end| end.pending.len()).sum::<usize>();
            if pending == 0 && receives == 0 {
                return self.check_loss();
            }
            self.ends.iter_mut().for_each(|end| end.closing = true);
        }
        for core in &self.sim.cores {
            eprintln!("{}", core.describe());
        }
        panic!("some operations did not complete");
    }

    /// Nothing took effect twice, successful operations took effect, and operations reported as without effect were
    /// not received.
    fn check_loss(&mut self) {
        self.sim.world.advance(Duration::from_secs(2));
        let [a, b] = &self.ends;
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(to.received, from.sent[..to.received.len()], "in order, without gaps");
            let mut received_imms = to.received_imms.clone();
            received_imms.sort_unstable();
            received_imms.dedup();
            assert_eq!(received_imms.len(), to.received_imms.len(), "no immediate data twice");
            let count = to.open.memory().load(super::ends::CELL * super::ends::CELLS);
            let (sure, maybe) = (from.added.len() as u64, from.unknown_additions);
            assert!((sure..=sure + maybe).contains(&count), "{sure} to {maybe} more, not {count}");
            for op_id in &from.without_effect {
                assert!(
                    !to.received.contains(op_id) && !to.received_imms.contains(op_id),
                    "{op_id} had an effect"
                );
            }
        }
    }

    /// Removes all faults and lets all operations complete.
    pub(super) fn finish(&mut self) {
        self.sim.clear_faults();
        for _ in 0..20_000 {
            self.step(false);
            let [a, b] = &self.ends;
            let arrived = a.received.len() == b.sent.len()
                && b.received.len() == a.sent.len()
                && a.received_imms.len() == b.sent_imms.len()
                && b.received_imms.len() == a.sent_imms.len();
            if a.pending.is_empty() && b.pending.is_empty() && arrived {
                return self.check();
            }
        }
        for core in &self.sim.cores {
            eprintln!("{}", core.describe());
        }
        let [a, b] = &self.ends;
        panic!(
            "stuck: {} and {} operations; messages {} of {}, {} of {}; immediate data {} of {}, {} of {}",
            a.pending.len(),
            b.pending.len(),
            a.received.len(),
            b.sent.len(),
            b.received.len(),
            a.sent.len(),
            a.received_imms.len(),
            b.sent_imms.len(),
            b.received_imms.len(),
            a.sent_imms.len(),
        );
    }

    fn check(&mut self) {
        // Packets that are still in flight arrive now.
        self.sim.world.advance(Duration::from_secs(2));
        self.ends.iter().for_each(End::check_stamps);
        let [a, b] = &self.ends;
        for (from, to) in [(a, b), (b, a)] {
            let mut received = to.received.clone();
            assert_eq!(received, from.sent, "every message once, in order");
            received.clone_from(&to.received_imms);
            received.sort_unstable();
            assert_eq!(received, from.sent_imms, "all immediate data once");
            let count = to.open.memory().load(super::ends::CELL * super::ends::CELLS);
            let mut added = from.added.clone();
            added.sort_unstable();
            assert_eq!(added, (0..count).collect::<Vec<u64>>(), "every addition once");
        }
    }
}
