//! What is known of one end of a measurement. It is sent to the other end, so it is small and has no secrets.

use std::net::IpAddr;

use node::{Address, Device, LaneSpeed, LinkLayer, Port, Seen};
use serde::{Deserialize, Serialize};

use crate::case::{is_software, port_name};
use crate::rates;
use crate::{Case, Verdict, examine};

/// One end: ports, net devices, and what is wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The host's name.
    pub host: String,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// RDMA ports that carry traffic.
    pub ports: Vec<PortSide>,
    /// Net devices with addresses.
    pub netdevs: Vec<NetSide>,
    /// What the doctor says is wrong.
    pub troubles: Vec<Trouble>,
}

/// An RDMA port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortSide {
    /// `mlx5_0 port 1`.
    pub name: String,
    /// Whether the CPU does a card's work: rxe, siw.
    pub is_software: bool,
    /// Whether its cable carries Ethernet.
    pub is_ethernet: bool,
    /// Bits a second that its line carries, in Mb/s, line code taken off.
    pub data_mbps: Option<u64>,
    /// The rate as text.
    pub rate: String,
    /// PCIe links from the card to the root.
    pub hops: Vec<Hop>,
    /// Its net device.
    pub netdev: Option<String>,
}

/// A PCIe link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// `PCIe 0000:3b:00.0`.
    pub what: String,
    /// What it carries after its line code.
    pub gbps: f64,
    /// `8 GT/s x16`.
    pub evidence: String,
}

/// A net device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetSide {
    /// `eth0`.
    pub name: String,
    /// Its addresses and how many bits name their subnets.
    pub ips: Vec<(IpAddr, u8)>,
    /// Its speed, if it tells.
    pub mbps: Option<u64>,
    /// The longest packet.
    pub mtu: Option<u32>,
}

/// Something that the doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The check.
    pub check: String,
    /// Devices, ports, or `host`.
    pub subjects: Vec<String>,
    /// One line.
    pub summary: String,
    /// What to do.
    pub fix: Option<String>,
}

impl Side {
    /// Of a machine.
    pub fn of(case: &Case<'_>) -> Side {
        let ports = case.active_ports().take(MAX).map(|(device, port)| port_of(case, device, port));
        let netdevs = case.node.netdevs.iter().filter(|netdev| !netdev.ips.is_empty());
        let netdevs = netdevs.take(MAX).map(|netdev| NetSide {
            name: netdev.name.clone(),
            ips: netdev.ips.iter().copied().take(MAX_ADDRESSES).collect(),
            mbps: netdev.speed_mbps.map(u64::from),
            mtu: netdev.mtu.value().copied(),
        });
        Side {
            host: case.node.host.name.value().cloned().unwrap_or_default(),
            is_virtual: is_virtual(case),
            cpus: case.node.host.cpus.online,
            ports: ports.collect(),
            netdevs: netdevs.collect(),
            troubles: troubles(case),
        }
    }

    /// From what the other end says of itself; nothing where it says something else.
    pub fn parse(about: &serde_json::Value) -> Option<Side> {
        serde_json::from_value(about.clone()).ok()
    }

    /// The port of a rail.
    pub(super) fn port(&self, name: &str) -> Option<&PortSide> {
        self.ports.iter().find(|port| port.name == name)
    }

    /// The net device that has an address.
    pub(super) fn with_address(&self, address: IpAddr) -> Option<&NetSide> {
        self.netdevs.iter().find(|netdev| netdev.ips.iter().any(|(ip, _)| *ip == address))
    }

    /// The net device by which an address of a neighbour is reached: its narrowest subnet has it.
    pub(super) fn towards(&self, address: IpAddr) -> Option<&NetSide> {
        let reach = |netdev: &NetSide| {
            let fit = netdev.ips.iter().filter(|(ip, bits)| is_within(address, *ip, *bits));
            fit.map(|(_, bits)| *bits).max()
        };
        let reached = self.netdevs.iter().filter_map(|netdev| Some((reach(netdev)?, netdev)));
        reached.max_by_key(|(bits, _)| *bits).map(|(_, netdev)| netdev)
    }
}

fn port_of(case: &Case<'_>, device: &Device, port: &Port) -> PortSide {
    let told = rates::now(case, device, port);
    let speed = port.rate.value().and_then(|rate| rate.speed);
    let is_ethernet = port.link_layer == Seen::Value(LinkLayer::Ethernet);
    let coded = if is_ethernet { 1.0 } else { line_code(speed) };
    PortSide {
        name: port_name(device, port),
        is_software: is_software(device),
        is_ethernet,
        data_mbps: told.as_ref().map(|told| (told.mbps as f64 * coded) as u64),
        rate: port.rate.value().map_or_else(|| "unknown".to_owned(), ToString::to_string),
        hops: hops(case, device),
        netdev: port.netdev.clone(),
    }
}

/// What is left of InfiniBand's rate: the older speeds are named by their signals, with ten bits to a byte.
fn line_code(speed: Option<LaneSpeed>) -> f64 {
    match speed {
        Some(LaneSpeed::Sdr | LaneSpeed::Ddr | LaneSpeed::Qdr) => 0.8,
        Some(LaneSpeed::Fdr) => 64.0 / 66.0,
        _ => 1.0,
    }
}

/// From the card up to the root. Of what is above a function every second is the inside of a switch, which is no link; a
/// virtual function has its card's.
fn hops(case: &Case<'_>, device: &Device) -> Vec<Hop> {
    let Some(address) = device.pci else { return Vec::new() };
    let own = case.function(address).and_then(|function| function.physical_function);
    let Some(function) = case.function(own.unwrap_or(address)) else { return Vec::new() };
    let chain: Vec<Address> =
        std::iter::once(function.address).chain(function.above.iter().copied()).collect();
    let lower = chain.chunks_exact(2).filter_map(|pair| case.function(pair[0]));
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

fn is_virtual(case: &Case<'_>) -> bool {
    let told = case.tree.text("/proc/cpuinfo").into_value();
    let flags = |text: &String| {
        text.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        })
    };
    told.as_ref().is_some_and(flags) || case.tree.exists("/sys/hypervisor/type")
}

fn troubles(case: &Case<'_>) -> Vec<Trouble> {
    let report = examine(case, &[]);
    let bad = report.findings.iter().filter(|finding| finding.verdict >= Verdict::Warning);
    let slows = bad.filter(|finding| SLOWING.contains(&finding.check));
    let trouble = |finding: &crate::Finding| Trouble {
        check: finding.check.to_owned(),
        subjects: finding.subjects.iter().take(MAX_ADDRESSES).cloned().collect(),
        summary: finding.summary.clone(),
        fix: finding.fix.first().cloned(),
    };
    slows.take(MAX_TROUBLES).map(trouble).collect()
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

/// Checks whose findings cost speed.
const SLOWING: &[&str] = &[
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
/// All of it must fit a card of 64 KiB.
const MAX: usize = 32;
const MAX_ADDRESSES: usize = 8;
const MAX_HOPS: usize = 4;
const MAX_TROUBLES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_tell_by_which_device_a_neighbour_is_reached() {
        let netdev = |name: &str, ip: &str, bits| NetSide {
            name: name.to_owned(),
            ips: vec![(ip.parse().expect("an address"), bits)],
            mbps: None,
            mtu: None,
        };
        let side = Side {
            netdevs: vec![netdev("wide", "10.0.0.1", 8), netdev("near", "10.1.0.1", 24)],
            ..Side::default()
        };
        let by = |ip: &str| {
            side.towards(ip.parse().expect("an address")).map(|netdev| netdev.name.as_str())
        };
        assert_eq!((by("10.1.0.9"), by("10.2.0.9")), (Some("near"), Some("wide")));
        assert_eq!((by("192.0.2.1"), by("fe80::1")), (None, None));
    }

    #[test]
    fn every_check_that_slows_is_one() {
        for name in SLOWING {
            assert!(crate::check(name).is_some(), "{name}");
        }
    }
}
