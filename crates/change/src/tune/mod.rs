//! Settings that make the fabric faster: what is worth changing on a host, as a plan.
//!
//! An [`Item`] is one such setting; each has a file here, and a row of [`ITEMS`]. It reads the facts of the
//! host and adds steps, each with its reason, for now and for after a restart, or advice where an administrator must
//! decide. Nothing is changed here: see [`apply()`](crate::apply()).

mod acs;
mod coalescing;
mod counters;
mod flow_control;
mod governor;
mod gpu;
mod huge_pages;
mod idle;
mod interrupts;
mod memlock;
mod modules;
mod mtu;
mod ordering;
mod persistent;
pub mod powershell;
mod read_request;
mod rings;
mod sysctl;
pub(crate) mod udev;

use std::fmt;

use node::{Device, NetDev, Node, Port, Role, Tree};
use serde::Serialize;

use crate::Plan;

/// What the machine is tuned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Low latency: no deep idle states, no interrupt coalescing.
    Latency,
    /// High throughput: large rings and reads, interrupt coalescing.
    Throughput,
}

/// One thing that can be tuned.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Where it applies.
    scope: Scope,
    propose: Propose,
}

/// Where an item applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// On any host.
    Host,
    /// On a host with RDMA devices, for all of them.
    Fabric,
    /// For each RDMA device.
    Device,
}

/// Which items and devices to tune; the default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Only these items; empty: all.
    pub only: Vec<String>,
    /// Not these items.
    pub skip: Vec<String>,
    /// Only settings of these RDMA devices; empty: all.
    pub devices: Vec<String>,
}

/// A choice with an unknown item or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName(String);

/// Everything that can be tuned, in the order of a plan.
pub const ITEMS: &[Item] = &[
    fabric("modules", "modules that RDMA programs need", modules::propose),
    fabric("memlock", "limit of locked memory", memlock::propose),
    host("hugepages", "large pages for memory pools", huge_pages::propose),
    host("sysctl", "socket buffers and NUMA reclaim", sysctl::propose),
    host("governor", "CPUs at full clock", governor::propose),
    host("idle", "no deep sleep of CPUs (latency)", idle::propose),
    device("mtu", "packets of 4096 bytes on RoCE", mtu::propose),
    device("rings", "receive and send rings at maximum size (throughput)", rings::propose),
    device("coalescing", "interrupt coalescing", coalescing::propose),
    device("interrupts", "interrupts near the device", interrupts::propose),
    device("read-request", "PCIe reads of 4096 bytes (throughput)", read_request::propose),
    device("flow-control", "PFC, trust and DSCP of RoCE: advice", flow_control::propose),
    device("ordering", "PCIe relaxed ordering: advice", ordering::propose),
    device("acs", "PCIe access control off: advice", acs::propose),
    host("gpu", "NVIDIA's driver stays loaded: advice", gpu::propose),
    device("counters", "optional counters: advice", counters::propose),
];

type Propose = fn(&Context<'_>, &mut Plan);

/// Applies to any host.
const fn host(name: &'static str, what: &'static str, propose: Propose) -> Item {
    Item { name, what, scope: Scope::Host, propose }
}

/// Applies to a host with RDMA devices.
const fn fabric(name: &'static str, what: &'static str, propose: Propose) -> Item {
    Item { name, what, scope: Scope::Fabric, propose }
}

/// Applies to each RDMA device.
const fn device(name: &'static str, what: &'static str, propose: Propose) -> Item {
    Item { name, what, scope: Scope::Device, propose }
}

/// What is worth changing on this host.
pub fn plan(
    node: &Node,
    tree: &Tree,
    profile: Profile,
    choice: &Choice,
) -> Result<Plan, UnknownName> {
    choice.check(node)?;
    let chosen =
        |device: &&Device| choice.devices.is_empty() || choice.devices.contains(&device.name);
    let context =
        Context { node, tree, profile, devices: node.devices.iter().filter(chosen).collect() };
    let mut plan = Plan::default();
    let items = ITEMS.iter().filter(|item| choice.has(item));
    for item in items.filter(|item| item.scope == Scope::Host || !context.devices.is_empty()) {
        (item.propose)(&context, &mut plan);
    }
    Ok(plan)
}

/// The steps of some items for a host that is being set up: its devices may be missing yet.
pub(crate) fn propose(
    node: &Node,
    tree: &Tree,
    profile: Profile,
    is_chosen: impl Fn(&str) -> bool,
) -> Plan {
    let context = Context { node, tree, profile, devices: node.devices.iter().collect() };
    let mut plan = Plan::default();
    for item in ITEMS.iter().filter(|item| is_chosen(item.name)) {
        (item.propose)(&context, &mut plan);
    }
    plan
}

impl Choice {
    /// Only these items.
    pub fn only(mut self, items: &[String]) -> Choice {
        self.only = items.to_vec();
        self
    }

    /// Not these items.
    pub fn skip(mut self, items: &[String]) -> Choice {
        self.skip = items.to_vec();
        self
    }

    /// Only settings of these RDMA devices.
    pub fn devices(mut self, names: &[String]) -> Choice {
        self.devices = names.to_vec();
        self
    }

    /// With a device named, only items of devices are selected, unless an item is named too.
    fn has(&self, item: &Item) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == item.name);
        let in_scope = self.devices.is_empty() || item.scope == Scope::Device;
        (if self.only.is_empty() { in_scope } else { named(&self.only) }) && !named(&self.skip)
    }

    fn check(&self, node: &Node) -> Result<(), UnknownName> {
        let unknown = |name: &&String| ITEMS.iter().all(|item| item.name != name.as_str());
        if let Some(name) = self.only.iter().chain(&self.skip).find(unknown) {
            let names: Vec<&str> = ITEMS.iter().map(|item| item.name).collect();
            return Err(UnknownName(format!("unknown item {name:?}; items: {}", names.join(", "))));
        }
        if let Some(name) = self.devices.iter().find(|name| node.device(name).is_none()) {
            let names: Vec<&str> = node.devices.iter().map(|device| device.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(UnknownName(format!("no RDMA device {name:?}; RDMA devices: {there}")));
        }
        Ok(())
    }
}

impl Profile {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Throughput => "throughput",
        }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownName {}

/// The facts that items read.
struct Context<'a> {
    node: &'a Node,
    tree: &'a Tree,
    profile: Profile,
    /// The devices to tune.
    devices: Vec<&'a Device>,
}

impl<'a> Context<'a> {
    /// RoCE ports with their devices and net devices, each net device once.
    fn roce(&self) -> Vec<(&'a Device, &'a Port, &'a NetDev)> {
        let mut found: Vec<(&Device, &Port, &NetDev)> = Vec::new();
        for device in &self.devices {
            for port in &device.ports {
                let netdev = port.netdev.as_deref().and_then(|name| self.node.netdev(name));
                let Some(netdev) = netdev.filter(|_| doctor::is_roce(device, port)) else {
                    continue;
                };
                if found.iter().all(|(_, _, known)| known.name != netdev.name) {
                    found.push((device, port, netdev));
                }
            }
        }
        found
    }

    /// Net devices of NICs: software devices have no rings and no interrupts.
    fn nics(&self) -> Vec<(&'a Device, &'a NetDev)> {
        let mut found: Vec<(&Device, &NetDev)> = Vec::new();
        for device in self.devices.iter().filter(|device| device.role != Role::Software) {
            let of_device = |port: &Port| self.node.netdev(port.netdev.as_deref()?);
            for netdev in device.ports.iter().filter_map(of_device) {
                if found.iter().all(|(_, known)| known.name != netdev.name) {
                    found.push((device, netdev));
                }
            }
        }
        found
    }

    /// NICs by their PCI addresses, each once, without virtual functions.
    fn physical(&self) -> Vec<(&'a Device, node::Address)> {
        let mut found: Vec<(&Device, node::Address)> = Vec::new();
        for device in &self.devices {
            let Some(pci) = device.pci else { continue };
            let physical = matches!(device.role, Role::Physical { .. });
            if physical && found.iter().all(|(_, known)| *known != pci) {
                found.push((device, pci));
            }
        }
        found
    }

    /// Whether this is a container: its limits and modules are set on the host.
    fn is_container(&self) -> bool {
        self.node.host.container.is_some()
    }
}
