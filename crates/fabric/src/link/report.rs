//! What a link is, and why: for people, for scripts, and for metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::config::Policy;
use super::core::Core;
use super::event::{Event, Happening};
use super::protocol::hello::{Hello, port_name};
use super::rails::{Rail, RailLane, State};
use crate::op::{Failure, OpKind};
use crate::stats::Stats;
use crate::verbs::UsablePort;

/// The state of a link that is over, and of its rails.
const ENDED: &str = "ended";

/// The last that was published of a link.
#[derive(Debug)]
pub struct Report {
    last: Mutex<Explanation>,
    stats: Arc<Stats>,
}

/// Everything about a link.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Where the peer is.
    pub peer: SocketAddr,
    /// The peer's host, by its own word.
    pub host: String,
    /// By what it is known: a key's name, or `anonymous`.
    pub identity: String,
    /// Whether the control connection is encrypted.
    pub encrypted: bool,
    /// Which end this is: the one that dialled decides about rails.
    pub dialled: bool,
    /// What both ends want together: `require`, `prefer` or `off`.
    pub policy: &'static str,
    /// `connecting`, `up`, `stranded` (no rail is up) or `ended`.
    pub state: &'static str,
    /// The kind of lane in use: `shm`, `verbs`, `ofi` or `tcp`.
    pub lane: Option<&'static str>,
    /// Why that one, or why none.
    pub why: String,
    /// Each rail, in use or not.
    pub rails: Vec<RailReport>,
    /// What was not even tried, and why.
    pub left_out: Vec<String>,
    /// How often each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The last things that happened.
    pub events: Vec<Event>,
}

/// One rail.
#[derive(Debug, Clone, Serialize)]
pub struct RailReport {
    /// The two ports or transports, ours first; those of libfabric begin with the provider's name.
    pub name: String,
    /// `shm`, `verbs`, `ofi` or `tcp`.
    pub lane: &'static str,
    /// `up`, `trying`, `fencing` or `standby`; `ended` with its link.
    pub state: &'static str,
    /// Whether operations go by it now.
    pub in_use: bool,
    /// Why it is as it is.
    pub why: String,
    /// How much it carries in proportion to others.
    pub weight: u32,
    /// How many lanes were tried on it.
    pub attempts: u32,
    /// Our port, where it is one.
    pub ours: Option<PortReport>,
    /// The peer's port, where it is one.
    pub theirs: Option<PortReport>,
    /// Bytes that its present lane moved.
    pub bytes: u64,
    /// Operations that its present lane did.
    pub operations: u64,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, Serialize)]
pub struct PortReport {
    /// The device.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// Its address.
    pub gid: String,
    /// Bytes.
    pub mtu: u32,
    /// Megabits a second.
    pub rate_mbps: u64,
}

/// What does not change while a link lives.
pub(in crate::link) struct Subject {
    pub(in crate::link) peer: SocketAddr,
    pub(in crate::link) identity: String,
    pub(in crate::link) withdrawals: u64,
    pub(in crate::link) encrypted: bool,
    pub(in crate::link) policy: Policy,
    pub(in crate::link) ours: Hello,
    pub(in crate::link) theirs: Hello,
    pub(in crate::link) left_out: Vec<String>,
}

impl Report {
    /// Whether the link is over. Costs less than all the rest.
    pub fn has_ended(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).state == ENDED
    }

    pub(in crate::link) fn new(core: &Core, subject: &Subject) -> Self {
        Report { last: Mutex::new(explain(core, subject)), stats: core.stats().clone() }
    }

    /// The last that was published: a second old at most, while its owner works.
    pub fn explain(&self) -> Explanation {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The link's counters.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// How many operations of a kind succeeded.
    pub fn operations(&self, kind: OpKind) -> u64 {
        self.stats.operations(kind)
    }

    /// Why it ended, if it has.
    pub fn ended(&self) -> Option<Failure> {
        self.stats.ended()
    }

    pub(in crate::link) fn publish(&self, core: &Core, subject: &Subject) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = explain(core, subject);
    }
}

fn explain(core: &Core, subject: &Subject) -> Explanation {
    let active = core.rails().active().first().map(|at| core.rails().get(*at));
    let state = match (core.ended(), active) {
        (Some(_), _) => ENDED,
        (None, Some(_)) => "up",
        (None, None) if core.journal().count(Happening::RailUp) > 0 => "stranded",
        (None, None) => "connecting",
    };
    let why = match (core.ended(), active) {
        (Some(ended), _) => ended.why.clone(),
        (None, Some(rail)) => rail.why().to_owned(),
        (None, None) => core.obstacles(),
    };
    let rails = core.rails().iter().enumerate();
    Explanation {
        peer: subject.peer,
        host: subject.theirs.host.clone(),
        identity: subject.identity.clone(),
        encrypted: subject.encrypted,
        dialled: core.rails().leads(),
        policy: subject.policy.name(),
        state,
        lane: active.map(|rail| rail.plan().class.name()),
        why,
        rails: rails.map(|(at, rail)| rail_report(core, subject, at as u8, rail)).collect(),
        left_out: subject.left_out.clone(),
        counts: Happening::ALL.map(|what| (what.name(), core.journal().count(what))).into(),
        events: core.journal().last().cloned().collect(),
    }
}

fn rail_report(core: &Core, subject: &Subject, at: u8, rail: &Rail) -> RailReport {
    let [leader, follower] = &rail.plan().paths;
    let (ours, theirs) = if core.rails().leads() { (leader, follower) } else { (follower, leader) };
    let stats = rail.lane().map(RailLane::stats);
    let moved = |count: fn(&Stats, OpKind) -> u64| {
        stats.map_or(0, |stats| OpKind::ALL.iter().map(|kind| count(stats, *kind)).sum())
    };
    RailReport {
        name: rail.name(core.rails().leads()),
        lane: rail.plan().class.name(),
        state: match rail.state() {
            // What was fenced when the link ended is not waited for any more.
            _ if core.ended().is_some() => ENDED,
            State::Up { .. } => "up",
            State::Trying { .. } => "trying",
            State::Fencing { .. } => "fencing",
            State::Standby { .. } => "standby",
        },
        in_use: core.rails().active().contains(&at),
        why: rail.why().to_owned(),
        weight: rail.plan().weight,
        attempts: rail.generation(),
        ours: port(&subject.ours, ours),
        theirs: port(&subject.theirs, theirs),
        bytes: moved(Stats::bytes),
        operations: moved(Stats::operations),
    }
}

fn port(hello: &Hello, name: &str) -> Option<PortReport> {
    let port: &UsablePort = hello.ports.iter().find(|port| port_name(port) == name)?;
    Some(PortReport {
        device: port.device.clone(),
        port: port.port,
        gid: port.gid.to_string(),
        mtu: port.mtu,
        rate_mbps: port.rate_mbps,
    })
}
