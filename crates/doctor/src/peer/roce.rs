//! RoCE between two ends: a common version, a common subnet, one size of packets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use node::GidType;

use super::{End, PortKind, gid_evidence};
use crate::{Evidence, Finding};

/// What stands between RoCE ports of the two.
pub(super) fn compare(pairs: &[(&End<'_>, &End<'_>)]) -> Vec<Finding> {
    let roce: Vec<_> =
        pairs.iter().filter(|(one, _)| one.kind == PortKind::Roce).copied().collect();
    if roce.is_empty() {
        return Vec::new();
    }
    let fitting: Vec<_> = roce
        .iter()
        .filter(|(one, other)| !versions_of(one).is_disjoint(&versions_of(other)))
        .copied()
        .collect();
    if fitting.is_empty() {
        let finding =
            Finding::problem("peer", "no common version of RoCE among addresses of both ends");
        return vec![
            finding
                .read_all(gid_evidence(&roce))
                .fix("Give both ends' net devices addresses; RoCE v2 needs a card that has it."),
        ];
    }
    let near: Vec<_> = fitting
        .iter()
        .filter(|(one, other)| common_network(one, other).is_some())
        .copied()
        .collect();
    if near.is_empty() {
        let known = fitting
            .iter()
            .any(|(one, other)| !one.networks.is_empty() && !other.networks.is_empty());
        let finding = if known {
            Finding::warning(
                "peer",
                "no RoCE port of the two machines is in the same subnet: only RoCE v2 over a \
                 router can connect them",
            )
        } else {
            Finding::unknown("peer", "the subnets of RoCE ports are not known at both ends")
        };
        return vec![finding.read_all(gid_evidence(&fitting)).fix(
            "Give both ends addresses of one subnet, or check that routers carry UDP port 4791 \
             between them.",
        )];
    }
    near.into_iter().map(|(one, other)| mtu(one, other)).collect()
}

/// Ports in one subnet: their packets should have one size.
fn mtu(one: &End<'_>, other: &End<'_>) -> Finding {
    let subject = format!("{} – {}", one.name, other.name);
    let evidence = [("here", one), ("there", other)].map(|(place, end)| {
        let mtu = end.port.active_mtu.map_or("not known".to_owned(), |mtu| mtu.to_string());
        Evidence::new(format!("{place}, {}: packet size", end.name), mtu)
    });
    let network = common_network(one, other).unwrap_or_default();
    match (one.port.active_mtu, other.port.active_mtu) {
        (Some(here), Some(there)) if here != there => Finding::warning(
            subject,
            format!("packets of {here} bytes here and {there} there, in one subnet {network}"),
        )
        .read_all(evidence)
        .fix("Give both net devices one MTU: `ip link set NETDEV mtu 9000`."),
        _ => Finding::ok(subject, format!("in one subnet, {network}, with packets of one size"))
            .read_all(evidence),
    }
}

/// Which RoCE versions the port has addresses for.
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
