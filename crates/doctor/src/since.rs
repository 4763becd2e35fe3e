//! Changes since an earlier snapshot of the same machine.

use std::collections::{BTreeMap, BTreeSet};

use node::{Device, Node, Port};
use serde::Serialize;

use super::finding::one_line;
use super::input::port_name;
use super::{Finding, FindingsReport, Severity};

/// All differences.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Comparison {
    /// Facts: devices added and removed, states, rates, versions.
    pub changes: Vec<Change>,
    /// Counters that changed.
    pub counters: Vec<CounterChange>,
    /// Findings that are new.
    pub new: Vec<Finding>,
    /// Findings that are no longer there.
    pub resolved: Vec<Finding>,
}

/// A fact that changed; `None`: absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The subject: `mlx5_0 port 1`.
    pub subject: String,
    /// The fact: `rate`.
    pub fact: &'static str,
    /// The earlier value.
    pub before: Option<String>,
    /// The current value.
    pub after: Option<String>,
}

/// A counter that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CounterChange {
    /// The port.
    pub subject: String,
    /// The counter's file.
    pub counter: String,
    /// The earlier value.
    pub before: u64,
    /// The current value; if it is lower, the counter was reset.
    pub after: u64,
}

/// Compares two snapshots.
pub fn compare(before: (&Node, &FindingsReport), now: (&Node, &FindingsReport)) -> Comparison {
    let (facts_then, facts_now) = (facts(before.0), facts(now.0));
    let keys: BTreeSet<&(String, &'static str)> =
        facts_then.keys().chain(facts_now.keys()).collect();
    let changes = keys.into_iter().filter_map(|key| {
        let (before, after) = (facts_then.get(key).cloned(), facts_now.get(key).cloned());
        let (subject, fact) = key.clone();
        (before != after).then_some(Change { subject, fact, before, after })
    });
    Comparison {
        changes: merge_devices(changes.collect()),
        counters: counter_changes(before.0, now.0),
        new: only_in(now.1, before.1),
        resolved: only_in(before.1, now.1),
    }
}

/// A device that was added or removed is one change, not one for each of its facts.
fn merge_devices(changes: Vec<Change>) -> Vec<Change> {
    let devices: Vec<String> = changes
        .iter()
        .filter(|change| change.fact == DEVICE)
        .map(|change| change.subject.clone())
        .collect();
    let part_of = |subject: &str| {
        devices.iter().any(|name| subject == name || subject.starts_with(&format!("{name} ")))
    };
    changes
        .into_iter()
        .filter(|change| change.fact == DEVICE || !part_of(&change.subject))
        .collect()
}

fn facts(node: &Node) -> BTreeMap<(String, &'static str), String> {
    let mut facts = BTreeMap::new();
    let mut put = |subject: &str, fact, value: Option<String>| {
        if let Some(value) = value {
            facts.insert((subject.to_owned(), fact), one_line(&value));
        }
    };
    put("host", "kernel", node.host.kernel.value().cloned());
    for device in &node.devices {
        put(&device.name, DEVICE, Some("there".to_owned()));
        put(&device.name, "firmware", device.firmware.value().cloned());
        put(&device.name, "node GUID", device.node_guid.value().map(ToString::to_string));
        let link =
            device.pci.and_then(|address| node.pci.get(&address)).map(|function| &function.link);
        let width =
            link.and_then(|link| Some(format!("{} GT/s x{}", link.speed_gts?, link.width?)));
        put(&device.name, "PCIe link", width);
        for port in &device.ports {
            for (fact, value) in port_facts(port) {
                put(&port_name(device, port), fact, value);
            }
        }
    }
    for netdev in &node.netdevs {
        put(&netdev.name, "MTU", netdev.mtu.value().map(ToString::to_string));
    }
    for gpu in &node.gpus {
        put(&format!("GPU {}", gpu.pci), DEVICE, Some("there".to_owned()));
    }
    facts
}

fn port_facts(port: &Port) -> Vec<(&'static str, Option<String>)> {
    let gids: Vec<String> =
        port.gids.iter().map(|gid| format!("{} {}", gid.index, gid.gid)).collect();
    vec![
        ("state", port.state.value().map(|state| state.name().to_owned())),
        ("physical state", port.phys_state.value().map(|state| format!("{state:?}"))),
        ("rate", port.rate.value().map(ToString::to_string)),
        ("LID", port.lid.value().map(|lid| format!("{lid:#x}"))),
        ("subnet manager", port.sm_lid.value().map(|lid| format!("{lid:#x}"))),
        ("packet size", port.active_mtu.map(|mtu| mtu.to_string())),
        ("GIDs", (!gids.is_empty()).then(|| gids.join(", "))),
    ]
}

fn counter_changes(before: &Node, now: &Node) -> Vec<CounterChange> {
    let then = counters(before);
    let changed = counters(now).into_iter().filter_map(|((subject, counter), after)| {
        let before = *then.get(&(subject.clone(), counter.clone()))?;
        (before != after).then_some(CounterChange { subject, counter, before, after })
    });
    changed.collect()
}

fn counters(node: &Node) -> BTreeMap<(String, String), u64> {
    let of_port = |(device, port): (&Device, &Port)| -> Vec<((String, String), u64)> {
        let name = port_name(device, port);
        let known = port.counters.iter().filter_map(|counter| {
            Some(((name.clone(), one_line(&counter.name)), counter.number()?))
        });
        known.collect()
    };
    let ports =
        node.devices.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    ports.flat_map(of_port).collect()
}

/// Faults of one report that the other does not have. Summaries are not compared, since they may contain changing
/// numbers.
fn only_in(one: &FindingsReport, other: &FindingsReport) -> Vec<Finding> {
    let key = |finding: &Finding| (finding.check, finding.severity, finding.subjects.clone());
    let known: Vec<_> = other.findings.iter().map(key).collect();
    let faults = one.findings.iter().filter(|finding| {
        matches!(finding.severity, Severity::Note | Severity::Warning | Severity::Problem)
    });
    faults.filter(|finding| !known.contains(&key(finding))).cloned().collect()
}

const DEVICE: &str = "device";
