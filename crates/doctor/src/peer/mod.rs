//! Compares two machines: whether their RDMA ports can communicate.

mod infiniband;
mod roce;

use std::collections::BTreeSet;
use std::net::IpAddr;

use node::{Device, LinkLayer, Node, NodeType, Port, Reading};

use super::input::{gbps, is_roce, port_name};
use super::{CheckInput, Evidence, Finding, rates};

/// The reason in these findings, which belong to no check.
const WHY: &str = "Two machines without faults may still not match: different link layers, RoCE versions, subnets or \
                   MTUs. Connections between them then time out.";

/// Compares this machine with another.
pub fn compare(ours: &CheckInput<'_>, theirs: &CheckInput<'_>) -> Vec<Finding> {
    let (here, there) = (ends(ours), ends(theirs));
    if here.is_empty() || there.is_empty() {
        return vec![named(no_active_port(ours, &here, &there))];
    }
    let pairs: Vec<(&End<'_>, &End<'_>)> =
        here.iter().flat_map(|one| there.iter().map(move |other| (one, other))).collect();
    let same_kind: Vec<(&End<'_>, &End<'_>)> =
        pairs.into_iter().filter(|(one, other)| one.kind == other.kind).collect();
    if same_kind.is_empty() {
        return vec![named(no_common_kind(&here, &there))];
    }
    let mut findings = Vec::new();
    findings.extend(roce::compare(&same_kind));
    findings.extend(infiniband::compare(&same_kind));
    findings.extend(rates_differ(&same_kind));
    findings.extend(versions(ours.node, theirs.node));
    findings.into_iter().map(named).collect()
}

/// An active port, with the properties that both ends must have in common.
struct End<'n> {
    name: String,
    kind: PortKind,
    port: &'n Port,
    mbps: Option<u64>,
    networks: Vec<(IpAddr, u8)>,
}

/// Ports of different kinds cannot communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortKind {
    InfiniBand,
    Roce,
    Iwarp,
    Other,
}

fn ends<'n>(input: &CheckInput<'n>) -> Vec<End<'n>> {
    let end = |(device, port): (&'n Device, &'n Port)| End {
        name: port_name(device, port),
        kind: kind(device, port),
        port,
        mbps: rates::current(input, device, port).map(|rate| rate.mbps),
        networks: input.netdev(port).map(|netdev| netdev.ips.clone()).unwrap_or_default(),
    };
    input.active_ports().map(end).collect()
}

fn kind(device: &Device, port: &Port) -> PortKind {
    match port.link_layer {
        Reading::Value(LinkLayer::InfiniBand) => PortKind::InfiniBand,
        _ if is_roce(device, port) => PortKind::Roce,
        _ if device.node_type == Reading::Value(NodeType::Rnic) => PortKind::Iwarp,
        _ => PortKind::Other,
    }
}

fn no_active_port(ours: &CheckInput<'_>, here: &[End<'_>], there: &[End<'_>]) -> Finding {
    let machine = match (here.is_empty(), there.is_empty()) {
        (true, true) => "neither machine has",
        (true, false) => "this machine does not have",
        _ => "the peer does not have",
    };
    let finding = Finding::problem("peer", format!("{machine} an active RDMA port"));
    let devices: Vec<&str> = ours.node.devices.iter().map(|device| device.name.as_str()).collect();
    finding
        .evidence(Evidence::new("devices here", devices.join(", ")))
        .fix("Run `wirelane doctor ports` at that end.")
}

fn no_common_kind(here: &[End<'_>], there: &[End<'_>]) -> Finding {
    let kinds = |ends: &[End<'_>]| {
        let kinds: BTreeSet<PortKind> = ends.iter().map(|end| end.kind).collect();
        kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    };
    Finding::problem(
        "peer",
        format!("no common link layer: {} here, {} there", kinds(here), kinds(there)),
    )
    .evidence_all(
        here.iter().map(|end| Evidence::new(format!("here, {}", end.name), end.kind.name())),
    )
    .evidence_all(
        there.iter().map(|end| Evidence::new(format!("there, {}", end.name), end.kind.name())),
    )
    .fix(
        "A VPI NIC can change: `mlxconfig -d DEVICE set LINK_TYPE_P1=2` (Ethernet; 1 is \
         InfiniBand), then restart.",
    )
}

fn rates_differ(pairs: &[(&End<'_>, &End<'_>)]) -> Option<Finding> {
    let fastest = |ends: BTreeSet<u64>| ends.last().copied();
    let here = fastest(pairs.iter().filter_map(|(one, _)| one.mbps).collect())?;
    let there = fastest(pairs.iter().filter_map(|(_, other)| other.mbps).collect())?;
    if here == there {
        return Some(Finding::ok("peer", format!("both ends have {}", gbps(here))));
    }
    let finding = Finding::note(
        "peer",
        format!("{} here, {} there: the slower end limits", gbps(here), gbps(there)),
    );
    Some(finding.fix(
        "Congestion control matters for such pairs: run `wirelane doctor flow-control ecn` at both \
         ends.",
    ))
}

fn versions(ours: &Node, theirs: &Node) -> Vec<Finding> {
    let firmware = |node: &Node| -> BTreeSet<(String, String)> {
        let known = node.devices.iter().filter_map(|device| {
            Some((device.hca_type.value()?.clone(), device.firmware.value()?.clone()))
        });
        known.collect()
    };
    let (here, there) = (firmware(ours), firmware(theirs));
    let models: BTreeSet<&String> = here.iter().map(|(model, _)| model).collect();
    let versions_of = |all: &BTreeSet<(String, String)>, model: &str| {
        all.iter()
            .filter(|(other, _)| other == model)
            .map(|(_, version)| version.clone())
            .collect::<BTreeSet<String>>()
    };
    let mut findings: Vec<Finding> = Vec::new();
    for model in models {
        let (ours, theirs) = (versions_of(&here, model), versions_of(&there, model));
        if !theirs.is_empty() && ours != theirs {
            let list =
                |versions: BTreeSet<String>| versions.into_iter().collect::<Vec<_>>().join(", ");
            findings.push(
                Finding::note("peer", format!("different firmware of {model} at the two ends"))
                    .evidence(Evidence::new("here: fw_ver", list(ours)))
                    .evidence(Evidence::new("there: fw_ver", list(theirs))),
            );
        }
    }
    if let (Some(ours), Some(theirs)) = (ours.host.kernel.value(), theirs.host.kernel.value())
        && ours != theirs
    {
        let finding = Finding::note("peer", "different kernels at the two ends");
        findings.push(
            finding.evidence(Evidence::new("here", ours)).evidence(Evidence::new("there", theirs)),
        );
    }
    findings
}

fn gid_evidence(pairs: &[(&End<'_>, &End<'_>)]) -> Vec<Evidence> {
    let mut seen = BTreeSet::new();
    let places = pairs.iter().flat_map(|(one, other)| [("here", *one), ("there", *other)]);
    let mut evidence = Vec::new();
    for (place, end) in places.filter(|(place, end)| seen.insert((*place, end.name.clone()))) {
        let gids = end
            .port
            .gids
            .iter()
            .filter(|gid| !gid.is_link_local() || end.kind == PortKind::InfiniBand);
        let gids: Vec<String> = gids
            .take(MAX_GIDS)
            .map(|gid| format!("{} {}", gid.gid, gid.kind.value().map_or("", |kind| kind.name())))
            .collect();
        let value = if gids.is_empty() { "none".to_owned() } else { gids.join(", ") };
        evidence.push(Evidence::new(format!("{place}, {}: GIDs", end.name), value));
    }
    evidence
}

impl PortKind {
    fn name(self) -> &'static str {
        match self {
            PortKind::InfiniBand => "InfiniBand",
            PortKind::Roce => "RoCE",
            PortKind::Iwarp => "iWARP",
            PortKind::Other => "another",
        }
    }
}

fn named(mut finding: Finding) -> Finding {
    finding.check = "peer";
    finding.why = WHY;
    finding
}

/// GIDs listed as evidence.
const MAX_GIDS: usize = 4;
