//! What hosts are compared by: one row a fact.

use std::collections::{BTreeMap, BTreeSet};

use node::{GidType, LinkLayer, Port, Seen};

use doctor::{Case, gbps, is_roce};

/// Something that hosts have.
pub(super) struct Fact {
    /// As a column's head and in words.
    pub(super) name: &'static str,
    /// Whether a job across hosts that differ in it will suffer.
    pub(super) matters: bool,
    /// What a host has that has none; `None`: then it is not compared, since another fact tells why.
    pub(super) none: Option<&'static str>,
    /// What comes of it when hosts differ.
    pub(super) why: &'static str,
    pub(super) read: fn(&Case<'_>) -> Option<String>,
}

/// In the order of the columns.
pub(super) const FACTS: &[Fact] = &[
    fact("devices", true, Some("no RDMA device"), "a job uses what all of them have", devices),
    fact("links", true, Some("no active port"), "the slowest host sets the pace of all", links),
    fact("gid", true, None, "all need an address of one kind, on one fabric", gids),
    fact("gid index", false, None, "so give jobs no NCCL_IB_GID_INDEX: `wirelane env`", indices),
    fact("mtu", true, None, "one size of packets should hold for all of a fabric", mtus),
    fact("firmware", false, None, "of one model, one version is easier to look after", firmware),
    fact("driver", false, Some("the kernel's own"), "one is easier to look after", drivers),
    fact("kernel", false, None, "one version is easier to look after", kernel),
    fact("rdma-core", false, Some("none"), "programs reach RDMA devices by it", rdma_core),
    fact("nccl", false, None, "ranks of one job must load one version", nccl),
    fact("memlock", true, None, "who may lock little fails, or falls to TCP", memlock),
    fact("gpus", true, Some("no GPU"), "ranks without one wait, or do not start", gpus),
];

const fn fact(
    name: &'static str,
    matters: bool,
    none: Option<&'static str>,
    why: &'static str,
    read: fn(&Case<'_>) -> Option<String>,
) -> Fact {
    Fact { name, matters, none, why, read }
}

/// `8 mlx5_core`.
fn devices(case: &Case<'_>) -> Option<String> {
    let driver = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "unknown".to_owned());
    counted(case.node.devices.iter().map(|device| driver(&device.driver)))
}

/// `8 InfiniBand 400 Gb/s`, of ports that carry traffic.
fn links(case: &Case<'_>) -> Option<String> {
    counted(case.active_ports().map(|(device, port)| {
        let kind = match port.link_layer {
            Seen::Value(LinkLayer::InfiniBand) => "InfiniBand",
            _ if is_roce(device, port) => "RoCE",
            Seen::Value(LinkLayer::Ethernet) => "iWARP",
            _ => "other",
        };
        let rate = case.rate_mbps(device, port).map_or("?".to_owned(), gbps);
        format!("{kind} {rate}")
    }))
}

/// Of RoCE, the best kind of address that a port has; of InfiniBand, the subnet.
fn gids(case: &Case<'_>) -> Option<String> {
    let of = |(device, port): (_, &Port)| match port.link_layer {
        Seen::Value(LinkLayer::InfiniBand) => {
            let mut parts = port.gids.first()?.gid.segments();
            parts[4..].fill(0);
            Some(format!("{}/64", std::net::Ipv6Addr::from(parts)))
        }
        _ if is_roce(device, port) => Some(best(port).map_or("none", |(kind, _)| kind).to_owned()),
        _ => None,
    };
    distinct(case.active_ports().filter_map(of))
}

/// Where such an address is in RoCE ports' tables.
fn indices(case: &Case<'_>) -> Option<String> {
    let roce = case.active_ports().filter(|(device, port)| is_roce(device, port));
    distinct(roce.filter_map(|(_, port)| Some(best(port)?.1.to_string())))
}

/// The kind and the place of the first address of the best kind: what NCCL would take by itself, IPv6 put last.
fn best(port: &Port) -> Option<(&'static str, u32)> {
    let sort = |gid: &node::Gid| match (gid.kind.value(), gid.ipv4().is_some()) {
        _ if gid.is_link_local() => None,
        (Some(GidType::RoceV2), true) => Some((0, "v2 IPv4")),
        (Some(GidType::RoceV2), false) => Some((1, "v2 IPv6")),
        (Some(GidType::IbOrRoceV1), true) => Some((2, "v1 IPv4")),
        (Some(GidType::IbOrRoceV1), false) => Some((3, "v1 IPv6")),
        (None, _) => None,
    };
    let sorted = port.gids.iter().filter_map(|gid| Some((sort(gid)?, gid.index)));
    sorted
        .min_by_key(|((order, _), index)| (*order, *index))
        .map(|((_, kind), index)| (kind, index))
}

/// What packets of RDMA have room for, and beside it what the net device's have.
fn mtus(case: &Case<'_>) -> Option<String> {
    let size = |port: &Port| {
        let netdev = port.netdev.as_deref().and_then(|name| case.node.netdev(name));
        let ethernet = netdev.and_then(|netdev| netdev.mtu.value().copied());
        let active = port.active_mtu.map_or("?".to_owned(), |mtu| mtu.to_string());
        ethernet.map_or(active.clone(), |mtu| format!("{active} in {mtu}"))
    };
    let roce = case.active_ports().filter(|(device, port)| is_roce(device, port));
    distinct(roce.map(|(_, port)| size(port)))
}

fn firmware(case: &Case<'_>) -> Option<String> {
    distinct(case.node.devices.iter().filter_map(|device| {
        // Software has `0.0.0`, or nothing.
        let _ = device.pci?;
        device.firmware.value().cloned()
    }))
}

/// Versions of drivers that do not come with the kernel, which have one of their own.
fn drivers(case: &Case<'_>) -> Option<String> {
    let used: BTreeSet<&str> =
        case.node.devices.iter().filter_map(|device| device.driver.as_deref()).collect();
    let modules = case.node.modules.iter().filter(|module| used.contains(module.name.as_str()));
    distinct(modules.filter_map(|module| {
        module.version.as_ref().map(|version| format!("{} {version}", module.name))
    }))
}

fn kernel(case: &Case<'_>) -> Option<String> {
    case.node.host.kernel.value().cloned()
}

/// `libibverbs.so.1` is a link to `libibverbs.so.1.14.44.0`, of rdma-core 44.0.
fn rdma_core(case: &Case<'_>) -> Option<String> {
    let real = LIBRARIES
        .iter()
        .find_map(|folder| case.tree.real(&format!("{folder}/libibverbs.so.1")).into_value())?;
    let (_, version) = real.rsplit_once("libibverbs.so.1.")?;
    Some(version.split_once('.').map_or(version, |(_, version)| version).to_owned())
}

fn nccl(case: &Case<'_>) -> Option<String> {
    let request = crate::job::Request {
        environment: case.tree.environment(),
        mode: crate::job::Mode::Tcp,
        peers: &[],
        nccl: None,
    };
    let plan = crate::job::plan(case.node, case.tree, &request).ok()?;
    plan.nccl.version.map(|version| version.to_string())
}

/// What a process may lock: as much as it may raise its limit to.
fn memlock(case: &Case<'_>) -> Option<String> {
    let process = &case.node.process;
    let limit = process.memlock?;
    if process.can_lock() {
        return Some("unlimited".to_owned());
    }
    Some(limit.hard.map_or("unlimited".to_owned(), doctor::limits::memlock::size))
}

/// `8 NVIDIA H100`.
fn gpus(case: &Case<'_>) -> Option<String> {
    let name = |gpu: &node::Gpu| {
        let words = [gpu.vendor.as_deref(), gpu.model.as_deref()];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        if words.is_empty() { "of an unknown kind".to_owned() } else { words.join(" ") }
    };
    counted(case.node.gpus.iter().map(name))
}

/// How many of each: `2 a, 1 b`.
fn counted(things: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1;
    }
    let words: Vec<String> =
        counts.iter().map(|(thing, count)| format!("{count} {thing}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Each once: `a, b`.
fn distinct(things: impl Iterator<Item = String>) -> Option<String> {
    let things: BTreeSet<String> = things.collect();
    (!things.is_empty()).then(|| things.into_iter().collect::<Vec<_>>().join(", "))
}

const LIBRARIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
