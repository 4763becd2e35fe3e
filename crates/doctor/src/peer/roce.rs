//! RoCE ports of two machines: a common version, a common subnet, the same MTU.

use std::collections::BTreeSet;
use std::net::IpAddr;

use node::GidType;

use super::{End, PortKind, gid_evidence};
use crate::{Evidence, Finding};

/// Findings on pairs of RoCE ports.
pub(super) fn compare(pairs: &[(&End<'_>, &End<'_>)]) -> Vec<Finding> {
    let roce: Vec<_> =
        pairs.iter().filter(|(one, _)| one.kind == PortKind::Roce).copied().collect();
    if roce.is_empty() {
        return Vec::new();
    }
    let same_version: Vec<_> = roce
        .iter()
        .filter(|(one, other)| !versions_of(one).is_disjoint(&versions_of(other)))
        .copied()
        .collect();
    if same_version.is_empty() {
        let finding =
            Finding::problem("peer", "no common RoCE version among the GIDs of both ends");
        return vec![finding.evidence_all(gid_evidence(&roce)).fix(
            "Give the net devices of both ends IP addresses; RoCE v2 needs a NIC that supports it.",
        )];
    }
    let same_subnet: Vec<_> = same_version
        .iter()
        .filter(|(one, other)| common_network(one, other).is_some())
        .copied()
        .collect();
    if same_subnet.is_empty() {
        let known = same_version
            .iter()
            .any(|(one, other)| !one.networks.is_empty() && !other.networks.is_empty());
        let finding = if known {
            Finding::warning(
                "peer",
                "no RoCE ports of the two machines are in the same subnet: they need a router for \
                 RoCE v2",
            )
        } else {
            Finding::unknown("peer", "the subnets of RoCE ports are not known at both ends")
        };
        return vec![finding.evidence_all(gid_evidence(&same_version)).fix(
            "Give both ends addresses of one subnet, or check that routers forward UDP port 4791 \
             between them.",
        )];
    }
    same_subnet.into_iter().map(|(one, other)| compare_mtu(one, other)).collect()
}

/// Ports in one subnet should have the same MTU.
fn compare_mtu(one: &End<'_>, other: &End<'_>) -> Finding {
    let subject = format!("{} – {}", one.name, other.name);
    let evidence = [("here", one), ("there", other)].map(|(place, end)| {
        let mtu = end.port.active_mtu.map_or("not known".to_owned(), |mtu| mtu.to_string());
        Evidence::new(format!("{place}, {}: MTU", end.name), mtu)
    });
    let network = common_network(one, other).unwrap_or_default();
    match (one.port.active_mtu, other.port.active_mtu) {
        (Some(here), Some(there)) if here != there => Finding::warning(
            subject,
            format!("RoCE MTU {here} here, {there} there, in the same subnet {network}"),
        )
        .evidence_all(evidence)
        .fix("Set the same MTU on both net devices: `ip link set NETDEV mtu 9000`."),
        _ => Finding::ok(subject, format!("in the same subnet {network}, with the same MTU"))
            .evidence_all(evidence),
    }
}

/// The RoCE versions of the port's GIDs.
fn versions_of(end: &End<'_>) -> BTreeSet<&'static str> {
    let usable = end.port.gids.iter().filter(|gid| !gid.is_link_local());
    usable.filter_map(|gid| gid.kind.value().copied().map(GidType::name)).collect()
}

/// The subnet that both are in, as `10.0.0.0/24`.
fn common_network(one: &End<'_>, other: &End<'_>) -> Option<String> {
    let networks = |end: &End<'_>| -> BTreeSet<(IpAddr, u8)> {
        let routed = end.networks.iter().filter(|(address, _)| !is_link_local(*address));
        routed.map(|(address, prefix)| (network(*address, *prefix), *prefix)).collect()
    };
    let common = networks(one).intersection(&networks(other)).next().copied();
    common.map(|(network, prefix)| format!("{network}/{prefix}"))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn network(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}
