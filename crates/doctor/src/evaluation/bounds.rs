//! Upper bounds of a path's bandwidth: the port's rate without headers, and each PCIe link above the NIC.

use std::net::{IpAddr, SocketAddr};

use report::{Bound, Operation, Point, Rail, Transport};

use super::{HostFacts, PortFacts};

/// The bounds of a measurement, the lowest first; empty if none is known.
pub(super) fn find(point: &Point, local: &HostFacts, peer: Option<&HostFacts>) -> Vec<Bound> {
    let mut bounds = match point.transport {
        Transport::Verbs => verbs(point, local, peer),
        Transport::Tcp => tcp(point, local, peer),
        Transport::Shm | Transport::Ofi => Vec::new(),
    };
    if point.both_ways {
        // Links are full duplex.
        for bound in &mut bounds {
            bound.gbps *= 2.0;
            bound.evidence.push_str(", doubled: both directions");
        }
    }
    bounds.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
    bounds
}

/// The rates of rails add up.
fn verbs(point: &Point, local: &HostFacts, peer: Option<&HostFacts>) -> Vec<Bound> {
    let mut links = Vec::new();
    let mut slots = Vec::new();
    for rail in &point.rails {
        let ends = [local.port(&rail.local), peer.and_then(|facts| facts.port(&rail.peer))];
        let ends = ends.into_iter().flatten();
        links.push(link(point, rail, ends.clone()));
        slots.extend(ends.flat_map(pcie));
    }
    let mut bounds = slots;
    if !links.is_empty()
        && let Some(links) = links.into_iter().collect::<Option<Vec<Bound>>>()
    {
        bounds.push(sum(links));
    }
    bounds
}

fn sum(links: Vec<Bound>) -> Bound {
    let join = |text: fn(&Bound) -> &str| links.iter().map(text).collect::<Vec<_>>().join(" + ");
    Bound {
        what: join(|bound| &bound.what),
        gbps: links.iter().map(|bound| bound.gbps).sum(),
        evidence: join(|bound| &bound.evidence),
    }
}

/// The rate of the slower port, without headers.
fn link<'s>(
    point: &Point,
    rail: &Rail,
    ends: impl Iterator<Item = &'s PortFacts> + Clone,
) -> Option<Bound> {
    let known = ends.clone().filter_map(|port| port.data_mbps);
    let mbps = known.chain(rail.rate_mbps).min()?;
    let mtu = rail.mtu?;
    let is_ethernet = ends.clone().next().is_none_or(|port| port.is_ethernet);
    let ratio = payload_ratio(point.size_bytes, mtu.into(), is_ethernet, point.operation);
    let rate = ends.map(|port| port.rate.as_str()).next().unwrap_or("its rate");
    Some(Bound {
        what: format!("the link {} – {}", rail.local, rail.peer),
        gbps: mbps as f64 / 1e3 * ratio,
        evidence: format!("{rate}; {:.1} % without headers at MTU {mtu}", ratio * 100.0),
    })
}

/// The payload's part of the link's bits. A message is split into packets of the MTU, each with headers; the first one
/// also has the remote address.
fn payload_ratio(size: u64, mtu: u64, is_ethernet: bool, operation: Operation) -> f64 {
    let per_packet = if is_ethernet { ROCE_V2 + ETHERNET_FRAMING } else { INFINIBAND };
    let per_message = if operation == Operation::Send { 0 } else { RETH };
    let packets = size.div_ceil(mtu).max(1);
    size as f64 / (size + packets * per_packet + per_message) as f64
}

fn pcie(port: &PortFacts) -> impl Iterator<Item = Bound> + '_ {
    port.hops.iter().map(move |hop| Bound {
        what: format!("{} ({})", hop.what, port.name),
        gbps: hop.gbps * PCIE_PAYLOAD_RATIO,
        evidence: pcie_evidence(&hop.evidence),
    })
}

/// The PCIe link with the part that headers leave.
pub(super) fn pcie_evidence(link: &str) -> String {
    format!("{link}; about {:.0} % without headers", PCIE_PAYLOAD_RATIO * 100.0)
}

/// The net devices at both ends, if they are different hosts.
fn tcp(point: &Point, local: &HostFacts, peer: Option<&HostFacts>) -> Vec<Bound> {
    let Some(peer_address) = point.rails.first().and_then(|rail| address(&rail.peer)) else {
        return Vec::new();
    };
    if peer_address.is_loopback() || local.with_address(peer_address).is_some() {
        return Vec::new();
    }
    let ends =
        [local.towards(peer_address), peer.and_then(|facts| facts.with_address(peer_address))];
    let bound = |netdev: &super::NetdevFacts| {
        let (mbps, mtu) = (netdev.mbps?, netdev.mtu?);
        let ratio = f64::from(mtu.saturating_sub(TCP_IP)) / f64::from(mtu + ETHERNET_OVERHEAD);
        Some(Bound {
            what: format!("the link of {}", netdev.name),
            gbps: mbps as f64 / 1e3 * ratio,
            evidence: format!(
                "{} Gb/s; {:.1} % without headers at MTU {mtu}",
                mbps as f64 / 1e3,
                ratio * 100.0
            ),
        })
    };
    ends.into_iter().flatten().filter_map(bound).collect()
}

/// The IP address of `10.0.0.7:50052`.
fn address(text: &str) -> Option<IpAddr> {
    text.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}

/// Ethernet 14, IPv4 20, UDP 8, BTH 12, and ICRC 4 (IBTA annex A17).
const ROCE_V2: u64 = 58;
/// Frame check sequence, preamble and inter-packet gap (IEEE 802.3).
const ETHERNET_FRAMING: u64 = 24;
/// LRH 8, BTH 12, ICRC 4 and VCRC 2 (IBTA 5.2).
const INFINIBAND: u64 = 26;
/// The remote address of a write or read (IBTA 9.3).
const RETH: u64 = 16;
/// IPv4 20, TCP 20, timestamps 12.
const TCP_IP: u32 = 52;
/// Header, frame check sequence, preamble and gap.
const ETHERNET_OVERHEAD: u32 = 38;
/// For packets of 256 bytes with about 26 bytes of headers, and the link's own traffic.
pub(super) const PCIE_PAYLOAD_RATIO: f64 = 0.88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_take_more_of_short_packets() {
        let permille = |size, mtu, ethernet| {
            (payload_ratio(size, mtu, ethernet, Operation::Write) * 1000.0).round()
        };
        assert_eq!(permille(1 << 20, 4096, true), 980.0);
        assert_eq!(permille(1 << 20, 1024, true), 926.0);
        assert_eq!(permille(1 << 20, 4096, false), 994.0);
        assert_eq!(permille(64, 4096, true), 395.0);
    }
}
