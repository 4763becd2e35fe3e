//! The facts of one end of a measurement. They are sent to the other end, so they are small and contain no secrets.

use std::net::IpAddr;

use node::{Address, Device, LaneSpeed, LinkLayer, Port, Reading};
use serde::{Deserialize, Serialize};

use crate::input::{is_software, port_name};
use crate::rates;
use crate::{CheckInput, Severity, run_checks};

/// The host at one end: ports, net devices, and the doctor's findings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The host's name.
    pub host: String,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// Active RDMA ports.
    pub ports: Vec<PortFacts>,
    /// Net devices with addresses.
    pub netdevs: Vec<NetdevFacts>,
    /// The doctor's warnings and problems.
    pub findings: Vec<HostFinding>,
}

/// An RDMA port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortFacts {
    /// `mlx5_0 port 1`.
    pub name: String,
    /// Whether it is software: rxe, siw.
    pub is_software: bool,
    /// Whether its link layer is Ethernet.
    pub is_ethernet: bool,
    /// The rate of data of its link in Mb/s: less than of bits, by the line coding (8b/10b, 64b/66b, 128b/130b).
    pub data_mbps: Option<u64>,
    /// The rate as text.
    pub rate: String,
    /// PCIe links from the NIC to the root.
    pub hops: Vec<Hop>,
    /// Its net device.
    pub netdev: Option<String>,
}

/// A PCIe link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// `PCIe 0000:3b:00.0`.
    pub what: String,
    /// Its rate of data.
    pub gbps: f64,
    /// `8 GT/s x16`.
    pub evidence: String,
}

/// A net device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetdevFacts {
    /// `eth0`.
    pub name: String,
    /// Its addresses and prefix lengths.
    pub ips: Vec<(IpAddr, u8)>,
    /// Its speed, if known.
    pub mbps: Option<u64>,
    /// Its MTU.
    pub mtu: Option<u32>,
}

/// A finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFinding {
    /// The check.
    pub check: String,
    /// Devices, ports, or `host`.
    pub subjects: Vec<String>,
    /// One line.
    pub summary: String,
    /// The first line of the fix.
    pub fix: Option<String>,
}

impl HostFacts {
    /// The facts of a machine.
    pub fn new(input: &CheckInput<'_>) -> HostFacts {
        let ports = input.active_ports().take(MAX_PORTS);
        let ports = ports.map(|(device, port)| port_facts(input, device, port));
        let netdevs = input.node.netdevs.iter().filter(|netdev| !netdev.ips.is_empty());
        let netdevs = netdevs.take(MAX_PORTS).map(|netdev| NetdevFacts {
            name: netdev.name.clone(),
            ips: netdev.ips.iter().copied().take(MAX_ADDRESSES).collect(),
            mbps: netdev.speed_mbps.map(u64::from),
            mtu: netdev.mtu.value().copied(),
        });
        HostFacts {
            host: input.node.host.name.value().cloned().unwrap_or_default(),
            is_virtual: is_virtual(input),
            cpus: input.node.host.cpus.online,
            ports: ports.collect(),
            netdevs: netdevs.collect(),
            findings: findings(input),
        }
    }

    /// Parses the facts that the other end sent; `None` if they are not valid.
    pub fn parse(about: &serde_json::Value) -> Option<HostFacts> {
        let mut about = about.clone();
        report::replace_controls(&mut about);
        serde_json::from_value(about).ok()
    }

    /// The port of a rail.
    pub(super) fn port(&self, name: &str) -> Option<&PortFacts> {
        self.ports.iter().find(|port| port.name == name)
    }

    /// The net device that has an address.
    pub(super) fn with_address(&self, address: IpAddr) -> Option<&NetdevFacts> {
        self.netdevs.iter().find(|netdev| netdev.ips.iter().any(|(ip, _)| *ip == address))
    }

    /// The net device that reaches an address directly: the one with the longest matching prefix.
    pub(super) fn towards(&self, address: IpAddr) -> Option<&NetdevFacts> {
        let reach = |netdev: &NetdevFacts| {
            let fit = netdev.ips.iter().filter(|(ip, bits)| is_within(address, *ip, *bits));
            fit.map(|(_, bits)| *bits).max()
        };
        let reached = self.netdevs.iter().filter_map(|netdev| Some((reach(netdev)?, netdev)));
        reached.max_by_key(|(bits, _)| *bits).map(|(_, netdev)| netdev)
    }
}

fn port_facts(input: &CheckInput<'_>, device: &Device, port: &Port) -> PortFacts {
    let rate = rates::current(input, device, port);
    let speed = port.rate.value().and_then(|rate| rate.speed);
    let is_ethernet = port.link_layer == Reading::Value(LinkLayer::Ethernet);
    let coding = if is_ethernet { 1.0 } else { line_coding(speed) };
    PortFacts {
        name: port_name(device, port),
        is_software: is_software(device),
        is_ethernet,
        data_mbps: rate.as_ref().map(|rate| (rate.mbps as f64 * coding) as u64),
        rate: port.rate.value().map_or_else(|| "unknown".to_owned(), ToString::to_string),
        hops: hops(input, device),
        netdev: port.netdev.clone(),
    }
}

/// The data part of InfiniBand's rate: the older speeds are signalling rates, with 8b/10b or 64b/66b coding.
fn line_coding(speed: Option<LaneSpeed>) -> f64 {
    match speed {
        Some(LaneSpeed::Sdr | LaneSpeed::Ddr | LaneSpeed::Qdr) => 0.8,
        Some(LaneSpeed::Fdr) => 64.0 / 66.0,
        _ => 1.0,
    }
}

/// PCIe links from the NIC up to the root. Every second pair of functions is inside a switch, without a link; a virtual
/// function has the link of its physical function.
fn hops(input: &CheckInput<'_>, device: &Device) -> Vec<Hop> {
    let Some(address) = device.pci else { return Vec::new() };
    let own = input.function(address).and_then(|function| function.physical_function);
    let Some(function) = input.function(own.unwrap_or(address)) else { return Vec::new() };
    let chain: Vec<Address> =
        std::iter::once(function.address).chain(function.above.iter().copied()).collect();
    let lower = chain.chunks_exact(2).filter_map(|pair| input.function(pair[0]));
    let hop = |function: &node::Function| {
        let link = &function.link;
        Some(Hop {
            what: format!("PCIe link of {}", function.address),
            gbps: link.gbps().0?,
            evidence: format!("{} GT/s x{}", link.speed_gts?, link.width?),
        })
    };
    lower.filter_map(hop).take(MAX_HOPS).collect()
}

fn is_virtual(input: &CheckInput<'_>) -> bool {
    let cpuinfo = input.tree.text("/proc/cpuinfo").into_value();
    let flags = |text: &String| {
        text.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        })
    };
    cpuinfo.as_ref().is_some_and(flags) || input.tree.exists("/sys/hypervisor/type")
}

fn findings(input: &CheckInput<'_>) -> Vec<HostFinding> {
    let report = run_checks(input, &[]);
    let bad = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let slowing = bad.filter(|finding| LINK_SLOWING_CHECKS.contains(&finding.check));
    let side_finding = |finding: &crate::Finding| HostFinding {
        check: finding.check.to_owned(),
        subjects: finding.subjects.iter().take(MAX_ADDRESSES).cloned().collect(),
        summary: finding.summary.clone(),
        fix: finding.fix.first().cloned(),
    };
    slowing.take(MAX_FINDINGS).map(side_finding).collect()
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |one: u128, other: u128, width: u32| {
        let bits = u32::from(bits).min(width);
        bits > 0 && (one ^ other) >> (width - bits) == 0
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            same(one.to_bits().into(), other.to_bits().into(), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
        _ => false,
    }
}

/// Checks whose findings reduce the bandwidth of a link or raise its latency.
const LINK_SLOWING_CHECKS: &[&str] = &[
    "rate",
    "pcie",
    "mtu",
    "numa",
    "governor",
    "idle",
    "congestion",
    "ecn",
    "flow-control",
    "losses",
    "link-errors",
    "read-request",
    "iommu",
    "bond",
    "aer",
];
/// Ports and net devices. The facts must fit in a hello message of 64 KiB, as with the limits below.
const MAX_PORTS: usize = 32;
const MAX_ADDRESSES: usize = 8;
const MAX_HOPS: usize = 4;
const MAX_FINDINGS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_selects_the_net_device() {
        let netdev = |name: &str, ip: &str, bits| NetdevFacts {
            name: name.to_owned(),
            ips: vec![(ip.parse().expect("an address"), bits)],
            mbps: None,
            mtu: None,
        };
        let facts = HostFacts {
            netdevs: vec![netdev("wide", "10.0.0.1", 8), netdev("near", "10.1.0.1", 24)],
            ..HostFacts::default()
        };
        let by = |ip: &str| {
            facts.towards(ip.parse().expect("an address")).map(|netdev| netdev.name.as_str())
        };
        assert_eq!((by("10.1.0.9"), by("10.2.0.9")), (Some("near"), Some("wide")));
        assert_eq!((by("192.0.2.1"), by("fe80::1")), (None, None));
    }

    #[test]
    fn slowing_checks_exist() {
        for name in LINK_SLOWING_CHECKS {
            assert!(crate::check(name).is_some(), "{name}");
        }
    }
}
