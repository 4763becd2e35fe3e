//! Links on simulated lanes: thousands of histories, each named by its seed.
//!
//! `cargo nextest run -p wirelane-fabric trial` runs some; `WIRELANE_TRIALS=100000` runs that many, and
//! `WIRELANE_SEED=7` only that one.

mod cases;
mod ends;
mod faults;
mod run;
mod scenarios;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::Error;
use crate::half::Fabric;
use crate::link::config::Config;
use crate::link::core::{Connection, Core, CoreSetup};
use crate::link::protocol::control::{Class, Plan};
use crate::link::rails::connector::{Connector, ConnectorTask, Finished, Transports};
use crate::sim::{self, World};

/// Two ends of a link, and the world between them.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) cores: [Core; 2],
    pub(super) wires: Arc<Mutex<Wires>>,
    /// How long the devices of each end take to answer, those of the better class.
    pub(super) mute: Arc<Mutex<[Duration; 2]>>,
}

/// The control connection both ways.
#[derive(Default)]
pub(super) struct Wires {
    to: [VecDeque<(Duration, Vec<u8>)>; 2],
    pub(super) delay: Duration,
    pub(super) cut: bool,
}

impl Stage {
    pub(super) fn new(seed: u64, config: &Config, ordered: bool) -> Self {
        let sim = sim::Config {
            retransmit: Duration::from_millis(5),
            retries: 3,
            ordered,
            ..sim::Config::default()
        };
        let world = World::with(seed, sim);
        let wires = Arc::new(Mutex::new(Wires::default()));
        let mute = Arc::new(Mutex::new([Duration::ZERO; 2]));
        let core = |end: usize| {
            let transports = Arc::new(SimTransports { world: world.clone(), host: HOSTS[end] });
            let plans = if end == 0 { plans() } else { Vec::new() };
            Core::new(CoreSetup {
                config: config.clone(),
                leads: end == 0,
                epochs: [10 + end as u64, 11 - end as u64],
                peer_message_limit: config.room,
                peer_regions: config.regions,
                connection: Box::new(Wire { wires: wires.clone(), world: world.clone(), end }),
                connector: Box::new(Bench {
                    transports,
                    mute: mute.clone(),
                    end,
                    dice: Dice::new(seed ^ end as u64),
                    finished: Vec::new(),
                }),
                plans,
                now: Duration::ZERO,
            })
        };
        let cores = [core(0), core(1)];
        Stage { world, cores, wires, mute }
    }
}

/// Two rails of the better class, one of the worse.
fn plans() -> Vec<Plan> {
    let plan = |name: &str, class, weight| Plan {
        class,
        paths: [name.to_owned(), name.to_owned()],
        weight,
        why: "for the trial".to_owned(),
    };
    vec![plan("r0", Class::Verbs, 2), plan("r1", Class::Verbs, 1), plan("t", Class::Tcp, 1)]
}

pub(super) const RAILS: [&str; 3] = ["r0", "r1", "t"];
pub(super) const HOSTS: [&str; 2] = ["a", "b"];

struct SimTransports {
    world: World,
    host: &'static str,
}

impl Transports for SimTransports {
    fn open(&self, _: Class, path: &str) -> Result<Arc<dyn Fabric>, Error> {
        Ok(Arc::new(self.world.fabric(self.host, path)))
    }

    fn tidy(&self, _: Class, _: &str) {}
}

/// Does every task when it is begun, and gives it out some time later: not always in order.
struct Bench {
    transports: Arc<SimTransports>,
    mute: Arc<Mutex<[Duration; 2]>>,
    end: usize,
    dice: Dice,
    finished: Vec<(Duration, Finished)>,
}

impl Connector for Bench {
    fn start(&mut self, task: ConnectorTask) {
        let mut takes = Duration::from_micros(self.dice.below(4000) as u64);
        if plans()[usize::from(task.rail)].class == Class::Verbs {
            takes += self.mute.lock().unwrap()[self.end];
        }
        let at = self.transports.world.now() + takes;
        self.finished.extend(task.run(&*self.transports).map(|finished| (at, finished)));
    }

    fn finished(&mut self) -> Option<Finished> {
        let now = self.transports.world.now();
        let at = self.finished.iter().position(|(at, _)| *at <= now)?;
        Some(self.finished.remove(at).1)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Wire {
    wires: Arc<Mutex<Wires>>,
    world: World,
    end: usize,
}

impl Connection for Wire {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let mut wires = self.wires.lock().unwrap();
        if wires.cut {
            return Err("the wire is cut".to_owned());
        }
        let at = self.world.now() + wires.delay;
        wires.to[1 - self.end].push_back((at, message.to_vec()));
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut wires = self.wires.lock().unwrap();
        let now = self.world.now();
        let due = wires.to[self.end].front().is_some_and(|(at, _)| *at <= now);
        match due.then(|| wires.to[self.end].pop_front()).flatten() {
            Some((_, message)) => Ok(Some(message)),
            None if wires.cut => Err("the wire is cut".to_owned()),
            None => Ok(None),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn wants_to_write(&self) -> bool {
        false
    }
}

/// Numbers by chance, the same for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// 0 to `below`, without it.
    pub(super) fn below(&mut self, below: usize) -> usize {
        (self.number() % below as u64) as usize
    }

    pub(super) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}
