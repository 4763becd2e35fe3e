//! Links on simulated lanes: thousands of random runs, each determined by its seed.
//!
//! `cargo nextest run -p wirelane-fabric simulation` runs some; `WIRELANE_SIMULATIONS=100000` sets the number, and
//! `WIRELANE_SEED=7` runs a single seed.

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
use crate::link::config::{Config, INTERNAL_SLOTS, Policy};
use crate::link::core::{Core, CoreSetup, MessageChannel};
use crate::link::protocol::control::{RailPlan, Transport};
use crate::link::protocol::hello::Hello;
use crate::link::rails::connector::{Connector, ConnectorTask, FabricOpener, NewPlan, TaskResult};
use crate::setup::Fabric;
use crate::sim::{self, World};
use crate::verbs::{Gid, LinkLayer, UsablePort};

/// Two ends of a link, and the simulated network between them.
pub(super) struct SimLink {
    pub(super) world: World,
    pub(super) cores: [Core; 2],
    pub(super) channel: Arc<Mutex<ControlChannel>>,
    /// How long the verbs devices of each end take to answer.
    pub(super) answer_delay: Arc<Mutex<[Duration; 2]>>,
}

/// The control connection, both directions.
#[derive(Default)]
pub(super) struct ControlChannel {
    to: [VecDeque<(Duration, Vec<u8>)>; 2],
    pub(super) delay: Duration,
    pub(super) cut: bool,
}

impl SimLink {
    pub(super) fn new(seed: u64, config: &Config, ordered: bool) -> Self {
        Self::with_plans(seed, config, ordered, plans(), false)
    }

    /// Only the worse rail is planned at first, since one of the ends gets RDMA later.
    pub(super) fn without_rdma(seed: u64, config: &Config, appears_at_peer: bool) -> Self {
        let is_tcp = |plan: &RailPlan| plan.transport == Transport::Tcp;
        let tcp = plans().into_iter().filter(is_tcp).collect();
        Self::with_plans(seed, config, true, tcp, appears_at_peer)
    }

    fn with_plans(
        seed: u64,
        config: &Config,
        ordered: bool,
        first: Vec<RailPlan>,
        appears_at_peer: bool,
    ) -> Self {
        let sim = sim::Config {
            retransmit: Duration::from_millis(5),
            retries: 3,
            ordered,
            // Half of the runs have lanes on a shared receive queue.
            max_unexpected: match seed / 8 % 2 {
                0 => 0,
                _ => usize::from(config.message_slots) + usize::from(INTERNAL_SLOTS),
            },
            // Half of the others, in larger blocks, have packets.
            packets: ordered && seed / 16 % 2 == 1,
            ..sim::Config::default()
        };
        let world = World::with_config(seed, sim);
        let channel = Arc::new(Mutex::new(ControlChannel::default()));
        let answer_delay = Arc::new(Mutex::new([Duration::ZERO; 2]));
        let core = |end: usize| {
            let opener =
                Arc::new(SimFabrics { world: world.clone(), host: HOSTS[end], appears_at_peer });
            let plans = if end == 0 { first.clone() } else { Vec::new() };
            Core::new(CoreSetup {
                config: config.clone(),
                is_initiator: end == 0,
                epochs: [10 + end as u64, 11 - end as u64],
                // More than ours: the lower limit counts.
                peer_max_payload: 1 << 20,
                peer_max_regions: config.max_regions,
                channel: Box::new(ControlEnd {
                    channel: channel.clone(),
                    world: world.clone(),
                    end,
                }),
                connector: Box::new(SimConnector {
                    opener,
                    answer_delay: answer_delay.clone(),
                    end,
                    random: Random::new(seed ^ end as u64),
                    finished: Vec::new(),
                }),
                plans,
                can_plan_again: appears_at_peer == (end == 1),
                now: Duration::ZERO,
            })
        };
        let cores = [core(0), core(1)];
        SimLink { world, cores, channel, answer_delay }
    }
}

/// Two rails of the better transport, one of the worse.
fn plans() -> Vec<RailPlan> {
    let plan = |name: &str, transport, weight| RailPlan {
        transport,
        port_names: [name.to_owned(), name.to_owned()],
        weight,
        why: "for the test".to_owned(),
    };
    vec![
        plan("r0", Transport::Verbs, 2),
        plan("r1", Transport::Verbs, 1),
        plan("t", Transport::Tcp, 1),
    ]
}

pub(super) const RAILS: [&str; 3] = ["r0", "r1", "t"];
pub(super) const HOSTS: [&str; 2] = ["a", "b"];

struct SimFabrics {
    world: World,
    host: &'static str,
    /// Whether the listener gets RDMA later, and not the initiator.
    appears_at_peer: bool,
}

impl FabricOpener for SimFabrics {
    fn open(&self, _: Transport, port_name: &str) -> Result<Arc<dyn Fabric>, Error> {
        Ok(Arc::new(self.world.fabric(self.host, port_name)))
    }

    fn release_broken(&self, _: Transport, _: &str) {}

    fn plan_again(&self, theirs: Option<Hello>) -> Option<NewPlan> {
        let ours = Hello {
            epoch: 0,
            boot_id: [0; 16],
            host: String::new(),
            policy: Policy::Prefer,
            transports: Transport::DEFAULT.to_vec(),
            encrypt: false,
            max_payload: 4096,
            max_regions: 16,
            ports: vec![UsablePort {
                device: "r0".to_owned(),
                port: 1,
                link_layer: LinkLayer::Ethernet,
                gid: Gid([0; 16]),
                gid_type: None,
                prefix: None,
                mtu: 4096,
                rate_mbps: 100,
            }],
            no_rdma: String::new(),
            ofi: Vec::new(),
            no_ofi: String::new(),
        };
        let plans = if self.appears_at_peer && theirs.is_none() { Vec::new() } else { plans() };
        Some(NewPlan { ours, theirs, plans, left_out: Vec::new() })
    }
}

/// Runs every task when it is started, and returns its result some time later, not always in order.
struct SimConnector {
    opener: Arc<SimFabrics>,
    answer_delay: Arc<Mutex<[Duration; 2]>>,
    end: usize,
    random: Random,
    finished: Vec<(Duration, TaskResult)>,
}

impl Connector for SimConnector {
    fn start(&mut self, task: ConnectorTask) {
        let mut takes = Duration::from_micros(self.random.below(4000) as u64);
        let plans = plans();
        let plan = plans.get(usize::from(task.rail));
        if plan.is_some_and(|plan| plan.transport == Transport::Verbs) {
            takes += self.answer_delay.lock().unwrap()[self.end];
        }
        let at = self.opener.world.now() + takes;
        self.finished.extend(task.run(&*self.opener).map(|finished| (at, finished)));
    }

    fn finished(&mut self) -> Option<TaskResult> {
        let now = self.opener.world.now();
        let at = self.finished.iter().position(|(at, _)| *at <= now)?;
        Some(self.finished.remove(at).1)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct ControlEnd {
    channel: Arc<Mutex<ControlChannel>>,
    world: World,
    end: usize,
}

impl MessageChannel for ControlEnd {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let mut channel = self.channel.lock().unwrap();
        if channel.cut {
            return Err("the wire is cut".to_owned());
        }
        let at = self.world.now() + channel.delay;
        channel.to[1 - self.end].push_back((at, message.to_vec()));
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut channel = self.channel.lock().unwrap();
        let now = self.world.now();
        let due = channel.to[self.end].front().is_some_and(|(at, _)| *at <= now);
        match due.then(|| channel.to[self.end].pop_front()).flatten() {
            Some((_, message)) => Ok(Some(message)),
            None if channel.cut => Err("the wire is cut".to_owned()),
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

/// A random generator with a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from 0 to `below`, exclusive.
    pub(super) fn below(&mut self, below: usize) -> usize {
        (self.number() % below as u64) as usize
    }

    pub(super) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}
