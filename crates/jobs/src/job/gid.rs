//! Which GID NCCL uses on RoCE: by the kind of address, never by a place in a table.
//!
//! Places differ from card to card and from host to host, and drift when addresses change. NCCL from 2.21 on
//! looks for a family, a range and a protocol version; what it will find is worked out here by its own rule,
//! and the rule is given a range where it would find another pod's address.

use std::fmt::Write;
use std::net::IpAddr;

use node::{Gid, GidType, Node, Seen};

use super::network::Network;
use super::rail::Rail;
use super::usable::is_here;

/// A kind of address: its family and RoCE's version. One holds for all devices of a job's rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) is_v6: bool,
    pub(super) version: u8,
}

/// What NCCL is given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// To look for such an address, in this range if there is one.
    Sort(Sort, Option<Network>),
    /// To take this place of every table: an NCCL that knows no better.
    Index(u32, Sort),
}

/// The kind of address that most rails have; `None` where none has one that leads beyond its own link.
pub(super) fn common(node: &Node, rails: &[&Rail]) -> Option<Sort> {
    let having = |sort: &Sort| rails.iter().filter(|rail| has(node, rail, *sort)).count();
    // The first of equals: `max_by_key` would take the last.
    let best = SORTS.iter().rev().max_by_key(|sort| having(sort))?;
    (having(best) > 0).then_some(*best)
}

pub(super) fn has(node: &Node, rail: &Rail, sort: Sort) -> bool {
    candidates(node, rail, sort).next().is_some()
}

/// What to tell NCCL; an error is a table of what each device has.
pub(super) fn decide(
    node: &Node,
    rails: &[&Rail],
    sort: Sort,
    chooses: bool,
    peers: &[IpAddr],
) -> Result<Policy, String> {
    if !chooses {
        return by_index(node, rails, sort);
    }
    let finds = |range: Option<&Network>| {
        rails.iter().all(|rail| {
            let index = nccl_finds(&rail.port.gids, sort, range);
            candidates(node, rail, sort).any(|gid| gid.index == index)
        })
    };
    let ranges = ranges(node, rails, sort);
    let leads = |range: &&Network| peers.iter().any(|peer| range.contains(*peer));
    let is_ambiguous = rails.iter().any(|rail| candidates(node, rail, sort).nth(1).is_some());
    let to_peers = ranges.iter().filter(leads).find(|range| finds(Some(range)));
    if finds(None) {
        return Ok(Policy::Sort(sort, to_peers.filter(|_| is_ambiguous).copied()));
    }
    match to_peers.or_else(|| ranges.iter().find(|range| finds(Some(range)))) {
        Some(range) => Ok(Policy::Sort(sort, Some(*range))),
        None => Err(format!(
            "NCCL would take a GID that is not of this network namespace, and no range of addresses \
             tells them apart:\n{}",
            table(node, rails)
        )),
    }
}

/// One number holds for all devices, so it must be the same on all.
fn by_index(node: &Node, rails: &[&Rail], sort: Sort) -> Result<Policy, String> {
    let index = |rail: &&Rail| candidates(node, rail, sort).next().map(|gid| gid.index);
    let mut indices: Vec<u32> = rails.iter().filter_map(index).collect();
    indices.dedup();
    match indices.as_slice() {
        [index] => Ok(Policy::Index(*index, sort)),
        _ => Err(format!(
            "this NCCL takes one GID index for all devices (NCCL_IB_GID_INDEX), and theirs differ; use NCCL 2.21 \
             or newer, or fewer devices:\n{}",
            table(node, rails)
        )),
    }
}

/// GIDs that may be used: of this network namespace, good beyond their own link, and of this kind.
fn candidates<'n>(node: &'n Node, rail: &Rail<'n>, sort: Sort) -> impl Iterator<Item = &'n Gid> {
    let gids = rail.port.gids.iter();
    gids.filter(move |gid| {
        is_here(node, gid) && !gid.is_link_local() && Sort::of(gid) == Some(sort)
    })
}

/// The networks of the addresses that may be used; of an address whose network is unknown, itself alone.
fn ranges(node: &Node, rails: &[&Rail], sort: Sort) -> Vec<Network> {
    let mut ranges: Vec<Network> = Vec::new();
    for rail in rails {
        for gid in candidates(node, rail, sort) {
            let address = address(gid);
            let netdev = gid.netdev.value().and_then(|name| node.netdev(name));
            let known = netdev.and_then(|netdev| netdev.ips.iter().find(|(ip, _)| *ip == address));
            let whole = if address.is_ipv4() { 32 } else { 128 };
            let prefixes = known.map(|(_, prefix)| *prefix).into_iter().chain([whole]);
            ranges.extend(prefixes.filter_map(|prefix| Network::of(address, prefix)));
        }
    }
    ranges.dedup();
    ranges
}

/// NCCL's own rule (`ncclIbGetGidIndex`): it begins with the first place and goes on to one of the wanted family if
/// that has another, and among those of the family to a valid one of the wanted version.
fn nccl_finds(gids: &[Gid], sort: Sort, range: Option<&Network>) -> u32 {
    let matches = |gid: &Gid| range.is_none_or(|range| range.contains(address(gid)));
    let of_family = |gid: &Gid| gid.ipv4().is_none() == sort.is_v6;
    let is_valid = |gid: &Gid| !gid.is_link_local();
    let mut taken = gids.iter().find(|gid| gid.index == 0);
    for gid in gids.iter().filter(|gid| gid.index > 0 && of_family(gid) && matches(gid)) {
        // An empty first place counts as one of IPv6.
        let family_differs = taken.map_or(!sort.is_v6, |taken| !of_family(taken));
        let better = is_valid(gid)
            && version(gid) == Some(sort.version)
            && taken.is_none_or(|taken| version(taken) != version(gid) || !is_valid(taken));
        if family_differs || better {
            taken = Some(gid);
        }
    }
    taken.map_or(0, |gid| gid.index)
}

fn table(node: &Node, rails: &[&Rail]) -> String {
    let mut text = String::new();
    for rail in rails {
        for gid in rail.port.gids.iter().filter(|gid| is_here(node, gid)) {
            let kind = gid.kind.value().map_or("?", |kind| kind.name());
            let netdev = gid.netdev.value().map_or("?", String::as_str);
            let _ = writeln!(
                text,
                "  {}  GID {}  {}  {kind}  {netdev}",
                rail.name(),
                gid.index,
                gid.gid
            );
        }
    }
    text.trim_end().to_owned()
}

fn address(gid: &Gid) -> IpAddr {
    gid.ipv4().map_or(IpAddr::V6(gid.gid), IpAddr::V4)
}

fn version(gid: &Gid) -> Option<u8> {
    match gid.kind {
        Seen::Value(GidType::RoceV2) => Some(2),
        Seen::Value(GidType::IbOrRoceV1) => Some(1),
        _ => None,
    }
}

impl Policy {
    /// Which addresses connections are made between.
    pub(super) fn sort(&self) -> Sort {
        match self {
            Policy::Sort(sort, _) | Policy::Index(_, sort) => *sort,
        }
    }
}

impl Sort {
    fn of(gid: &Gid) -> Option<Self> {
        Some(Sort { is_v6: gid.ipv4().is_none(), version: version(gid)? })
    }

    /// The word that NCCL has for the family.
    pub(super) fn family(self) -> &'static str {
        if self.is_v6 { "AF_INET6" } else { "AF_INET" }
    }
}

/// The best first.
const SORTS: [Sort; 4] = [
    Sort { is_v6: false, version: 2 },
    Sort { is_v6: true, version: 2 },
    Sort { is_v6: false, version: 1 },
    Sort { is_v6: true, version: 1 },
];

#[cfg(test)]
mod tests {
    use super::super::rail::RailKind;
    use super::super::test_machine::Machine;
    use super::*;

    const V1: &str = "IB/RoCE v1";
    const V2: &str = "RoCE v2";

    /// What a job with all RoCE devices of the machine would be told.
    fn policy(machine: &Machine, chooses: bool, peers: &[&str]) -> Result<Policy, String> {
        let node = Node::read(&machine.tree());
        let of = |device| Rail { device, port: &device.ports[0], kind: RailKind::Roce };
        let rails: Vec<Rail> = node.devices.iter().map(of).collect();
        let rails: Vec<&Rail> = rails.iter().collect();
        let peers: Vec<IpAddr> = peers.iter().map(|peer| peer.parse().expect("a peer")).collect();
        decide(&node, &rails, common(&node, &rails).expect("an address"), chooses, &peers)
    }

    fn usual(machine: Machine, device: &str, netdev: &str, ip: &str, from: u32) -> Machine {
        machine
            .gid(device, from, "fe80::1", V1, Some(netdev))
            .gid(device, from + 1, "fe80::1", V2, Some(netdev))
            .gid(device, from + 2, ip, V1, Some(netdev))
            .gid(device, from + 3, ip, V2, Some(netdev))
    }

    fn two(from: u32) -> Machine {
        let machine = Machine::default().roce("mlx5_0", 0, "eth1").roce("mlx5_1", 1, "eth2");
        let machine = usual(machine, "mlx5_0", "eth1", "::ffff:10.1.0.5", 0);
        usual(machine, "mlx5_1", "eth2", "::ffff:10.2.0.5", from)
    }

    #[test]
    fn four_gids_each_need_no_index() {
        let v2 = Sort { is_v6: false, version: 2 };
        assert_eq!(policy(&two(0), true, &[]), Ok(Policy::Sort(v2, None)));
    }

    #[test]
    fn an_old_nccl_gets_an_index_only_if_it_is_the_same_everywhere() {
        assert_eq!(
            policy(&two(0), false, &[]),
            Ok(Policy::Index(3, Sort { is_v6: false, version: 2 }))
        );
        let refused = policy(&two(2), false, &[]).expect_err("they differ");
        assert!(
            refused.contains("mlx5_0:1  GID 3") && refused.contains("mlx5_1:1  GID 5"),
            "{refused}"
        );
    }

    #[test]
    fn a_fabric_of_ipv6_alone_is_told_so() {
        let machine = Machine::default()
            .roce("bnxt_re0", 0, "eth1")
            .gid("bnxt_re0", 0, "fe80::1", V1, Some("eth1"))
            .gid("bnxt_re0", 1, "fe80::1", V2, Some("eth1"))
            .gid("bnxt_re0", 2, "fd00::5", V1, Some("eth1"))
            .gid("bnxt_re0", 3, "fd00::5", V2, Some("eth1"));
        assert_eq!(
            policy(&machine, true, &[]),
            Ok(Policy::Sort(Sort { is_v6: true, version: 2 }, None))
        );
    }

    #[test]
    fn another_pods_address_before_ours_is_kept_out_by_a_range() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "net1")
            .gid("mlx5_0", 0, "fe80::1", V1, Some("net1"))
            .gid("mlx5_0", 2, "::ffff:10.9.0.7", V2, Some("other0"))
            .gid("mlx5_0", 4, "::ffff:10.1.0.5", V2, Some("net1"))
            .address("net1", "10.1.0.5", 16);
        let v2 = Sort { is_v6: false, version: 2 };
        let range = Network::of(IpAddr::from([10, 1, 0, 0]), 16);
        assert_eq!(policy(&machine, true, &[]), Ok(Policy::Sort(v2, range)));
    }

    #[test]
    fn two_pods_in_one_network_are_told_apart_by_the_address_itself() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "net1")
            .gid("mlx5_0", 2, "::ffff:10.1.0.4", V2, Some("other0"))
            .gid("mlx5_0", 4, "::ffff:10.1.0.5", V2, Some("net1"))
            .address("net1", "10.1.0.5", 16);
        let v2 = Sort { is_v6: false, version: 2 };
        let range = Network::of(IpAddr::from([10, 1, 0, 5]), 32);
        assert_eq!(policy(&machine, true, &[]), Ok(Policy::Sort(v2, range)));
    }

    #[test]
    fn of_two_addresses_the_one_in_the_peers_network_is_asked_for() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "eth1")
            .gid("mlx5_0", 0, "::ffff:10.1.0.5", V2, Some("eth1"))
            .gid("mlx5_0", 1, "::ffff:10.2.0.5", V2, Some("eth1"))
            .address("eth1", "10.1.0.5", 16)
            .address("eth1", "10.2.0.5", 16);
        let told = |peers: &[&str]| match policy(&machine, true, peers) {
            Ok(Policy::Sort(_, range)) => range.map(|range| range.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["10.2.7.7"]).as_deref(), Some("10.2.0.0/16"));
    }

    #[test]
    fn cards_that_speak_version_1_alone() {
        let machine = Machine::default()
            .roce("mlx4_0", 0, "eth1")
            .gid("mlx4_0", 0, "fe80::1", V1, Some("eth1"))
            .gid("mlx4_0", 1, "::ffff:10.1.0.5", V1, Some("eth1"));
        assert_eq!(
            policy(&machine, true, &[]),
            Ok(Policy::Sort(Sort { is_v6: false, version: 1 }, None))
        );
    }
}
