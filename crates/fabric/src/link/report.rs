//! The state of a link with reasons: for people, for scripts, and for metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::config::Policy;
use super::core::Core;
use super::event::{Event, EventKind};
use super::protocol::hello::{Hello, port_name};
use super::rails::{Rail, RailLane};
use crate::op::{Failure, OpKind};
use crate::stats::Stats;
use crate::verbs::UsablePort;

/// The state of a link that has ended, and of its rails.
const ENDED: &str = "ended";

/// The last published state of a link.
#[derive(Debug)]
pub struct Report {
    last: Mutex<LinkStatus>,
    stats: Arc<Stats>,
}

/// The state of a link.
#[derive(Debug, Clone, Serialize)]
pub struct LinkStatus {
    /// The peer's address.
    pub peer: SocketAddr,
    /// The peer's host name, as it reports it.
    pub host: String,
    /// The peer's identity: a key's name, or `anonymous`.
    pub identity: String,
    /// Whether the control connection is encrypted.
    pub encrypted: bool,
    /// Whether this end is the initiator, which decides about rails.
    pub initiator: bool,
    /// The policy that results from both ends': `require`, `prefer` or `off`.
    pub policy: &'static str,
    /// `connecting`, `up`, `no_rail` (no rail is up) or `ended`.
    pub state: &'static str,
    /// The transport in use: `shm`, `verbs`, `ofi` or `tcp`.
    pub transport: Option<&'static str>,
    /// Why this transport is used, or why none is.
    pub why: String,
    /// All rails, in use or not.
    pub rails: Vec<RailReport>,
    /// Transports and ports that are not tried, with the reasons.
    pub left_out: Vec<String>,
    /// The number of events by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// The last events.
    pub events: Vec<Event>,
}

/// One rail.
#[derive(Debug, Clone, Serialize)]
pub struct RailReport {
    /// The two ports or transports, ours first; with libfabric each starts with the provider's name.
    pub name: String,
    /// `shm`, `verbs`, `ofi` or `tcp`.
    pub transport: &'static str,
    /// `not_tried`, `trying`, `up`, `fencing`, `down` or `given_up`; `ended` with its link.
    pub state: &'static str,
    /// Whether operations use it now.
    pub in_use: bool,
    /// The reason for its state.
    pub why: String,
    /// Its share of the load relative to other rails.
    pub weight: u32,
    /// The number of lanes that were tried on it.
    pub attempts: u32,
    /// Our port, if it is an RDMA port.
    pub ours: Option<PortReport>,
    /// The peer's port, if it is an RDMA port.
    pub theirs: Option<PortReport>,
    /// Bytes transferred by its current lane.
    pub bytes: u64,
    /// Operations completed by its current lane.
    pub operations: u64,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, Serialize)]
pub struct PortReport {
    /// The device.
    pub device: String,
    /// The port number.
    pub port: u8,
    /// The GID.
    pub gid: String,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The rate in megabits per second.
    pub rate_mbps: u64,
}

/// Facts about a link that do not change.
pub(in crate::link) struct LinkInfo {
    pub(in crate::link) peer: SocketAddr,
    pub(in crate::link) identity: String,
    pub(in crate::link) revocations: u64,
    pub(in crate::link) encrypted: bool,
    pub(in crate::link) policy: Policy,
    pub(in crate::link) ours: Hello,
    pub(in crate::link) theirs: Hello,
    pub(in crate::link) left_out: Vec<String>,
}

impl Report {
    /// Whether the link has ended; cheaper than [`Report::status`].
    pub fn has_ended(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).state == ENDED
    }

    pub(in crate::link) fn new(core: &Core, info: &LinkInfo) -> Self {
        Report { last: Mutex::new(status(core, info)), stats: core.stats().clone() }
    }

    /// The last published state: at most a second old while the owner polls or waits.
    pub fn status(&self) -> LinkStatus {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The link's counters.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// The number of successful operations of a kind.
    pub fn operations(&self, kind: OpKind) -> u64 {
        self.stats.operations(kind)
    }

    /// Why it ended, if it has.
    pub fn ended(&self) -> Option<Failure> {
        self.stats.ended()
    }

    pub(in crate::link) fn publish(&self, core: &Core, info: &LinkInfo) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = status(core, info);
    }
}

fn status(core: &Core, info: &LinkInfo) -> LinkStatus {
    let active = core.rails().active().first().map(|rail| core.rails().get(*rail));
    let state = match (core.ended(), active) {
        (Some(_), _) => ENDED,
        (None, Some(_)) => "up",
        (None, None) if core.event_log().count(EventKind::RailUp) > 0 => "no_rail",
        (None, None) => "connecting",
    };
    let why = match (core.ended(), active) {
        (Some(ended), _) => ended.why.clone(),
        (None, Some(rail)) => rail.why().to_owned(),
        (None, None) => core.rail_problems(),
    };
    let rails = core.rails().iter().enumerate();
    LinkStatus {
        peer: info.peer,
        host: info.theirs.host.clone(),
        identity: info.identity.clone(),
        encrypted: info.encrypted,
        initiator: core.rails().is_initiator(),
        policy: info.policy.name(),
        state,
        transport: active.map(|rail| rail.plan().transport.name()),
        why,
        rails: rails.map(|(rail, entry)| rail_report(core, info, rail as u8, entry)).collect(),
        left_out: info.left_out.clone(),
        counts: EventKind::ALL.map(|what| (what.name(), core.event_log().count(what))).into(),
        events: core.event_log().last().cloned().collect(),
    }
}

fn rail_report(core: &Core, info: &LinkInfo, rail: u8, entry: &Rail) -> RailReport {
    let [initiator, listener] = &entry.plan().port_names;
    let (ours, theirs) =
        if core.rails().is_initiator() { (initiator, listener) } else { (listener, initiator) };
    let stats = entry.lane().map(RailLane::stats);
    let moved = |count: fn(&Stats, OpKind) -> u64| {
        stats.map_or(0, |stats| OpKind::ALL.iter().map(|kind| count(stats, *kind)).sum())
    };
    RailReport {
        name: entry.name(core.rails().is_initiator()),
        transport: entry.plan().transport.name(),
        // A fence that was not complete when the link ended never completes.
        state: if core.ended().is_some() { ENDED } else { entry.state().name() },
        in_use: core.rails().active().contains(&rail),
        why: entry.why().to_owned(),
        weight: entry.plan().weight,
        attempts: entry.generation(),
        ours: port(&info.ours, ours),
        theirs: port(&info.theirs, theirs),
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
