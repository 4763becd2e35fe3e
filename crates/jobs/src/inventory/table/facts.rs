//! The facts by which hosts are compared.

use std::collections::{BTreeMap, BTreeSet};

use node::{GidType, LinkLayer, Port, Reading};

use doctor::{CheckInput, gbps, is_roce};

/// A fact of a host.
pub(super) struct Fact {
    /// The column header, and its name in messages.
    pub(super) name: &'static str,
    /// Whether a difference affects a job across the hosts.
    pub(super) relevant: bool,
    /// The text for a host without it; `None`: such a host is not compared, since another fact shows why.
    pub(super) none: Option<&'static str>,
    /// The effect of a difference.
    pub(super) why: &'static str,
    pub(super) read: fn(&CheckInput<'_>) -> Option<String>,
}

/// In the order of the columns.
pub(super) const FACTS: &[Fact] = &[
    fact("devices", true, Some("no RDMA device"), "a job uses only what all hosts have", devices),
    fact("links", true, Some("no active port"), "the slowest host limits all", links),
    fact("gid", true, None, "all hosts need addresses of one kind, on one fabric", gids),
    fact(
        "gid index",
        false,
        None,
        "do not set NCCL_IB_GID_INDEX for jobs: `wirelane env`",
        indices,
    ),
    fact("mtu", true, None, "a fabric should have one packet size", mtus),
    fact("firmware", false, None, "one version per model is easier to maintain", firmware),
    fact("driver", false, Some("the kernel's own"), "one driver is easier to maintain", drivers),
    fact("kernel", false, None, "one version is easier to maintain", kernel),
    fact("rdma-core", false, Some("none"), "programs use RDMA devices through it", rdma_core),
    fact("nccl", false, None, "all ranks of a job must load the same version", nccl),
    fact("memlock", true, None, "a job with a low limit fails, or falls back to TCP", memlock),
    fact("gpus", true, Some("no GPU"), "ranks without a GPU wait, or do not start", gpus),
];

const fn fact(
    name: &'static str,
    relevant: bool,
    none: Option<&'static str>,
    why: &'static str,
    read: fn(&CheckInput<'_>) -> Option<String>,
) -> Fact {
    Fact { name, relevant, none, why, read }
}

/// `8 mlx5_core`.
fn devices(input: &CheckInput<'_>) -> Option<String> {
    let driver = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "unknown".to_owned());
    counted(input.node.devices.iter().map(|device| driver(&device.driver)))
}

/// `8 InfiniBand 400 Gb/s`, for active ports.
fn links(input: &CheckInput<'_>) -> Option<String> {
    counted(input.active_ports().map(|(device, port)| {
        let kind = match port.link_layer {
            Reading::Value(LinkLayer::InfiniBand) => "InfiniBand",
            _ if is_roce(device, port) => "RoCE",
            Reading::Value(LinkLayer::Ethernet) => "iWARP",
            _ => "other",
        };
        let rate = input.rate_mbps(device, port).map_or("?".to_owned(), gbps);
        format!("{kind} {rate}")
    }))
}

/// For RoCE, the best kind of address of a port; for InfiniBand, the subnet.
fn gids(input: &CheckInput<'_>) -> Option<String> {
    let kind = |(device, port): (_, &Port)| match port.link_layer {
        Reading::Value(LinkLayer::InfiniBand) => {
            let mut parts = port.gids.first()?.gid.segments();
            parts[4..].fill(0);
            Some(format!("{}/64", std::net::Ipv6Addr::from(parts)))
        }
        _ if is_roce(device, port) => Some(best(port).map_or("none", |(kind, _)| kind).to_owned()),
        _ => None,
    };
    distinct(input.active_ports().filter_map(kind))
}

/// The GID index of such an address, on RoCE ports.
fn indices(input: &CheckInput<'_>) -> Option<String> {
    let roce = input.active_ports().filter(|(device, port)| is_roce(device, port));
    distinct(roce.filter_map(|(_, port)| Some(best(port)?.1.to_string())))
}

/// The kind and index of the first address of the best kind: NCCL's default choice, with IPv6 last.
fn best(port: &Port) -> Option<(&'static str, u32)> {
    let rank = |gid: &node::Gid| match (gid.kind.value(), gid.ipv4().is_some()) {
        _ if gid.is_link_local() => None,
        (Some(GidType::RoceV2), true) => Some((0, "v2 IPv4")),
        (Some(GidType::RoceV2), false) => Some((1, "v2 IPv6")),
        (Some(GidType::IbOrRoceV1), true) => Some((2, "v1 IPv4")),
        (Some(GidType::IbOrRoceV1), false) => Some((3, "v1 IPv6")),
        (None, _) => None,
    };
    let ranked = port.gids.iter().filter_map(|gid| Some((rank(gid)?, gid.index)));
    ranked
        .min_by_key(|((order, _), index)| (*order, *index))
        .map(|((_, kind), index)| (kind, index))
}

/// The RDMA MTU, with the MTU of the net device.
fn mtus(input: &CheckInput<'_>) -> Option<String> {
    let size = |port: &Port| {
        let netdev = port.netdev.as_deref().and_then(|name| input.node.netdev(name));
        let ethernet = netdev.and_then(|netdev| netdev.mtu.value().copied());
        let active = port.active_mtu.map_or("?".to_owned(), |mtu| mtu.to_string());
        ethernet.map_or(active.clone(), |mtu| format!("{active} in {mtu}"))
    };
    let roce = input.active_ports().filter(|(device, port)| is_roce(device, port));
    distinct(roce.map(|(_, port)| size(port)))
}

fn firmware(input: &CheckInput<'_>) -> Option<String> {
    distinct(input.node.devices.iter().filter_map(|device| {
        // Software devices have `0.0.0`, or nothing.
        let _ = device.pci?;
        device.firmware.value().cloned()
    }))
}

/// Versions of out-of-tree drivers; the kernel's own have none.
fn drivers(input: &CheckInput<'_>) -> Option<String> {
    let used: BTreeSet<&str> =
        input.node.devices.iter().filter_map(|device| device.driver.as_deref()).collect();
    let modules = input.node.modules.iter().filter(|module| used.contains(module.name.as_str()));
    distinct(modules.filter_map(|module| {
        module.version.as_ref().map(|version| format!("{} {version}", module.name))
    }))
}

fn kernel(input: &CheckInput<'_>) -> Option<String> {
    input.node.host.kernel.value().cloned()
}

/// `libibverbs.so.1` is a link to `libibverbs.so.1.14.44.0` in rdma-core 44.0.
fn rdma_core(input: &CheckInput<'_>) -> Option<String> {
    let real = LIBRARIES
        .iter()
        .find_map(|folder| input.tree.real(&format!("{folder}/libibverbs.so.1")).into_value())?;
    let (_, version) = real.rsplit_once("libibverbs.so.1.")?;
    Some(version.split_once('.').map_or(version, |(_, version)| version).to_owned())
}

fn nccl(input: &CheckInput<'_>) -> Option<String> {
    let request = crate::environment::Request {
        environment: input.tree.environment(),
        mode: crate::environment::Mode::Tcp,
        peers: &[],
        peers_option: "",
        nccl: None,
    };
    let plan = crate::environment::plan(input.node, input.tree, &request).ok()?;
    plan.nccl.version.map(|version| version.to_string())
}

/// The memory that a process may lock: its hard limit.
fn memlock(input: &CheckInput<'_>) -> Option<String> {
    let process = &input.node.process;
    let limit = process.memlock?;
    if process.can_lock() {
        return Some("unlimited".to_owned());
    }
    Some(limit.hard.map_or("unlimited".to_owned(), doctor::expected::memlock::size))
}

/// `8 NVIDIA H100`.
fn gpus(input: &CheckInput<'_>) -> Option<String> {
    let name = |gpu: &node::Gpu| {
        let words = [gpu.vendor.as_deref(), gpu.model.as_deref()];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        if words.is_empty() { "of an unknown kind".to_owned() } else { words.join(" ") }
    };
    counted(input.node.gpus.iter().map(name))
}

/// The count of each: `2 a, 1 b`.
fn counted(things: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1;
    }
    let words: Vec<String> =
        counts.iter().map(|(thing, count)| format!("{count} {thing}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The distinct values: `a, b`.
fn distinct(things: impl Iterator<Item = String>) -> Option<String> {
    let things: BTreeSet<String> = things.collect();
    (!things.is_empty()).then(|| things.into_iter().collect::<Vec<_>>().join(", "))
}

const LIBRARIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
