//! What a path can carry: the port's rate less what headers take, and each PCIe link above the card.

use std::net::{IpAddr, SocketAddr};

use report::{Cap, Operation, Point, Rail, Transport};

use super::{PortSide, Side};

/// What caps a measurement, the lowest first; empty where nothing is known to.
pub(super) fn of(point: &Point, here: &Side, there: Option<&Side>) -> Vec<Cap> {
    let mut caps = match point.transport {
        Transport::Verbs => verbs(point, here, there),
        Transport::Tcp => tcp(point, here, there),
        Transport::Shm | Transport::Ofi => Vec::new(),
    };
    if point.both_ways {
        // Links of today carry as much each way at once.
        for cap in &mut caps {
            cap.gbps *= 2.0;
            cap.evidence.push_str(", twice: both ways");
        }
    }
    caps.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
    caps
}

/// Rails add up; so does what caps each.
fn verbs(point: &Point, here: &Side, there: Option<&Side>) -> Vec<Cap> {
    let mut lines = Vec::new();
    let mut slots = Vec::new();
    for rail in &point.rails {
        let ends = [here.port(&rail.here), there.and_then(|side| side.port(&rail.there))];
        let ends = ends.into_iter().flatten();
        lines.push(line(point, rail, ends.clone()));
        slots.extend(ends.flat_map(pcie));
    }
    let mut caps = slots;
    if !lines.is_empty()
        && let Some(lines) = lines.into_iter().collect::<Option<Vec<Cap>>>()
    {
        caps.push(together(lines));
    }
    caps
}

fn together(lines: Vec<Cap>) -> Cap {
    let join = |text: fn(&Cap) -> &str| lines.iter().map(text).collect::<Vec<_>>().join(" + ");
    Cap {
        what: join(|cap| &cap.what),
        gbps: lines.iter().map(|cap| cap.gbps).sum(),
        evidence: join(|cap| &cap.evidence),
    }
}

/// The slower of both ports, less headers.
fn line<'s>(
    point: &Point,
    rail: &Rail,
    ends: impl Iterator<Item = &'s PortSide> + Clone,
) -> Option<Cap> {
    let told = ends.clone().filter_map(|port| port.data_mbps);
    let mbps = told.chain(rail.rate_mbps).min()?;
    let mtu = rail.mtu?;
    let is_ethernet = ends.clone().next().is_none_or(|port| port.is_ethernet);
    let left = payload(point.size_bytes, mtu.into(), is_ethernet, point.operation);
    let rate = ends.map(|port| port.rate.as_str()).next().unwrap_or("its rate");
    Some(Cap {
        what: format!("the link {} – {}", rail.here, rail.there),
        gbps: mbps as f64 / 1e3 * left,
        evidence: format!("{rate}; headers at MTU {mtu} leave {:.1} %", left * 100.0),
    })
}

/// What part of the link's bits is payload. A message is cut into packets of the MTU, each with its headers; the first has
/// where it goes.
fn payload(size: u64, mtu: u64, is_ethernet: bool, operation: Operation) -> f64 {
    let each = if is_ethernet { ROCE_V2 + ETHERNET_BETWEEN } else { INFINIBAND };
    let once = if operation == Operation::Send { 0 } else { RETH };
    let packets = size.div_ceil(mtu).max(1);
    size as f64 / (size + packets * each + once) as f64
}

fn pcie(port: &PortSide) -> impl Iterator<Item = Cap> + '_ {
    let left = PCIE_PAYLOAD;
    port.hops.iter().map(move |hop| Cap {
        what: format!("{} ({})", hop.what, port.name),
        gbps: hop.gbps * left,
        evidence: format!("{}; packets' headers leave about {:.0} %", hop.evidence, left * 100.0),
    })
}

/// The net devices at both ends, if it goes from one host to another.
fn tcp(point: &Point, here: &Side, there: Option<&Side>) -> Vec<Cap> {
    let Some(peer) = point.rails.first().and_then(|rail| address(&rail.there)) else {
        return Vec::new();
    };
    if peer.is_loopback() || here.with_address(peer).is_some() {
        return Vec::new();
    }
    let ends = [here.towards(peer), there.and_then(|side| side.with_address(peer))];
    let cap = |netdev: &super::NetSide| {
        let (mbps, mtu) = (netdev.mbps?, netdev.mtu?);
        let left = f64::from(mtu.saturating_sub(TCP_IP)) / f64::from(mtu + ETHERNET_AROUND);
        Some(Cap {
            what: format!("the link of {}", netdev.name),
            gbps: mbps as f64 / 1e3 * left,
            evidence: format!(
                "{} Gb/s; headers at MTU {mtu} leave {:.1} %",
                mbps as f64 / 1e3,
                left * 100.0
            ),
        })
    };
    ends.into_iter().flatten().filter_map(cap).collect()
}

/// Of `10.0.0.7:50052`.
fn address(text: &str) -> Option<IpAddr> {
    text.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}

/// Ethernet 14, IPv4 20, UDP 8, BTH 12, and the checksum behind the data 4 (IBTA annex A17).
const ROCE_V2: u64 = 58;
/// The frame's own checksum, the preamble, and the gap before the next (IEEE 802.3).
const ETHERNET_BETWEEN: u64 = 24;
/// LRH 8, BTH 12, and two checksums 4 + 2 (IBTA 5.2).
const INFINIBAND: u64 = 26;
/// Where a write goes, or a read comes from (IBTA 9.3).
const RETH: u64 = 16;
/// IPv4 20, TCP 20, time stamps 12.
const TCP_IP: u32 = 52;
/// Header, checksum, preamble and gap.
const ETHERNET_AROUND: u32 = 38;
/// Of packets of 256 bytes with some 26 of headers and the link's own traffic.
pub(super) const PCIE_PAYLOAD: f64 = 0.88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_take_more_of_short_packets() {
        let left =
            |size, mtu, ethernet| (payload(size, mtu, ethernet, Operation::Write) * 1000.0).round();
        assert_eq!(left(1 << 20, 4096, true), 980.0);
        assert_eq!(left(1 << 20, 1024, true), 926.0);
        assert_eq!(left(1 << 20, 4096, false), 994.0);
        assert_eq!(left(64, 4096, true), 395.0);
    }
}
