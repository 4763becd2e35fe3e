//! Which GID NCCL uses on RoCE: selected by the kind of address, never by a table index.
//!
//! Indices differ between NICs and hosts, and change with the addresses. NCCL from 2.21 on
//! selects by family, range and protocol version; its rule is simulated here,
//! and a range is set where it would select another pod's address.

use std::fmt::Write;
use std::net::IpAddr;

use node::{Gid, GidType, Node, Reading};

use super::network::Network;
use super::usable::is_in_namespace;
use super::usable_port::UsablePort;

/// A kind of address: its family and RoCE's version. One kind applies to all devices of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressKind {
    pub(super) is_v6: bool,
    pub(super) version: u8,
}

/// How NCCL selects GIDs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GidPolicy {
    /// By the kind of address, in this range if there is one.
    ByAddress(AddressKind, Option<Network>),
    /// By this index in every table, for an older NCCL.
    Index(u32, AddressKind),
}

/// The kind of address that most usable ports have; `None` if all addresses are link-local.
pub(super) fn common(node: &Node, usable_ports: &[&UsablePort]) -> Option<AddressKind> {
    let having =
        |kind: &AddressKind| usable_ports.iter().filter(|usable| has(node, usable, *kind)).count();
    // The first of equals: `max_by_key` would take the last.
    let best = ADDRESS_KINDS.iter().rev().max_by_key(|kind| having(kind))?;
    (having(best) > 0).then_some(*best)
}

pub(super) fn has(node: &Node, usable: &UsablePort, kind: AddressKind) -> bool {
    candidates(node, usable, kind).next().is_some()
}

/// Chooses the settings of NCCL; an error includes a table of the GIDs of each device.
pub(super) fn decide(
    node: &Node,
    usable_ports: &[&UsablePort],
    kind: AddressKind,
    selects_by_address: bool,
    peers: &[IpAddr],
) -> Result<GidPolicy, String> {
    if !selects_by_address {
        return by_index(node, usable_ports, kind);
    }
    let selects_ours = |range: Option<&Network>| {
        usable_ports.iter().all(|usable| {
            let index = nccl_index(&usable.port.gids, kind, range);
            candidates(node, usable, kind).any(|gid| gid.index == index)
        })
    };
    let ranges = ranges(node, usable_ports, kind);
    let leads = |range: &&Network| peers.iter().any(|peer| range.contains(*peer));
    let is_ambiguous =
        usable_ports.iter().any(|usable| candidates(node, usable, kind).nth(1).is_some());
    let to_peers = ranges.iter().filter(leads).find(|range| selects_ours(Some(range)));
    if selects_ours(None) {
        return Ok(GidPolicy::ByAddress(kind, to_peers.filter(|_| is_ambiguous).copied()));
    }
    match to_peers.or_else(|| ranges.iter().find(|range| selects_ours(Some(range)))) {
        Some(range) => Ok(GidPolicy::ByAddress(kind, Some(*range))),
        None => Err(format!(
            "NCCL would select a GID of another network namespace, and no address range \
             excludes it:\n{}",
            table(node, usable_ports)
        )),
    }
}

/// One index applies to all devices, so it must be the same on all.
fn by_index(
    node: &Node,
    usable_ports: &[&UsablePort],
    kind: AddressKind,
) -> Result<GidPolicy, String> {
    let index = |usable: &&UsablePort| candidates(node, usable, kind).next().map(|gid| gid.index);
    let mut indices: Vec<u32> = usable_ports.iter().filter_map(index).collect();
    indices.dedup();
    match indices.as_slice() {
        [index] => Ok(GidPolicy::Index(*index, kind)),
        _ => Err(format!(
            "this NCCL uses one GID index for all devices (NCCL_IB_GID_INDEX), and theirs differ; use NCCL 2.21 \
             or newer, or fewer devices:\n{}",
            table(node, usable_ports)
        )),
    }
}

/// Usable GIDs: of this network namespace, not link-local, and of this kind.
fn candidates<'n>(
    node: &'n Node,
    usable: &UsablePort<'n>,
    kind: AddressKind,
) -> impl Iterator<Item = &'n Gid> {
    let gids = usable.port.gids.iter();
    gids.filter(move |gid| {
        is_in_namespace(node, gid) && !gid.is_link_local() && AddressKind::of(gid) == Some(kind)
    })
}

/// The networks of the usable addresses; for an address with an unknown network, only itself.
fn ranges(node: &Node, usable_ports: &[&UsablePort], kind: AddressKind) -> Vec<Network> {
    let mut ranges: Vec<Network> = Vec::new();
    for usable in usable_ports {
        for gid in candidates(node, usable, kind) {
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

/// NCCL's rule (`ncclIbGetGidIndex`): it starts with index 0, moves on to the wanted family if that one has
/// another, and within the family to a valid GID of the wanted version.
fn nccl_index(gids: &[Gid], kind: AddressKind, range: Option<&Network>) -> u32 {
    let matches = |gid: &Gid| range.is_none_or(|range| range.contains(address(gid)));
    let of_family = |gid: &Gid| gid.ipv4().is_none() == kind.is_v6;
    let is_valid = |gid: &Gid| !gid.is_link_local();
    let mut selected = gids.iter().find(|gid| gid.index == 0);
    for gid in gids.iter().filter(|gid| gid.index > 0 && of_family(gid) && matches(gid)) {
        // An empty index 0 counts as IPv6.
        let family_differs = selected.map_or(!kind.is_v6, |selected| !of_family(selected));
        let better = is_valid(gid)
            && version(gid) == Some(kind.version)
            && selected
                .is_none_or(|selected| version(selected) != version(gid) || !is_valid(selected));
        if family_differs || better {
            selected = Some(gid);
        }
    }
    selected.map_or(0, |gid| gid.index)
}

fn table(node: &Node, usable_ports: &[&UsablePort]) -> String {
    let mut text = String::new();
    for usable in usable_ports {
        for gid in usable.port.gids.iter().filter(|gid| is_in_namespace(node, gid)) {
            let kind = gid.kind.value().map_or("?", |kind| kind.name());
            let netdev = gid.netdev.value().map_or("?", String::as_str);
            let _ = writeln!(
                text,
                "  {}  GID {}  {}  {kind}  {netdev}",
                usable.name(),
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
        Reading::Value(GidType::RoceV2) => Some(2),
        Reading::Value(GidType::IbOrRoceV1) => Some(1),
        _ => None,
    }
}

impl GidPolicy {
    /// The kind of address of the connections.
    pub(super) fn kind(&self) -> AddressKind {
        match self {
            GidPolicy::ByAddress(kind, _) | GidPolicy::Index(_, kind) => *kind,
        }
    }
}

impl AddressKind {
    fn of(gid: &Gid) -> Option<Self> {
        Some(AddressKind { is_v6: gid.ipv4().is_none(), version: version(gid)? })
    }

    /// NCCL's name of the family.
    pub(super) fn family(self) -> &'static str {
        if self.is_v6 { "AF_INET6" } else { "AF_INET" }
    }
}

/// The best first.
const ADDRESS_KINDS: [AddressKind; 4] = [
    AddressKind { is_v6: false, version: 2 },
    AddressKind { is_v6: true, version: 2 },
    AddressKind { is_v6: false, version: 1 },
    AddressKind { is_v6: true, version: 1 },
];

#[cfg(test)]
mod tests {
    use super::super::test_machine::Machine;
    use super::super::usable_port::PortKind;
    use super::*;

    const V1: &str = "IB/RoCE v1";
    const V2: &str = "RoCE v2";

    /// The policy for a job with all RoCE devices of the machine.
    fn policy(
        machine: &Machine,
        selects_by_address: bool,
        peers: &[&str],
    ) -> Result<GidPolicy, String> {
        let node = Node::read(&machine.tree());
        let of = |device| UsablePort { device, port: &device.ports[0], kind: PortKind::Roce };
        let usable_ports: Vec<UsablePort> = node.devices.iter().map(of).collect();
        let usable_ports: Vec<&UsablePort> = usable_ports.iter().collect();
        let peers: Vec<IpAddr> = peers.iter().map(|peer| peer.parse().expect("a peer")).collect();
        decide(
            &node,
            &usable_ports,
            common(&node, &usable_ports).expect("an address"),
            selects_by_address,
            &peers,
        )
    }

    fn four_gids(machine: Machine, device: &str, netdev: &str, ip: &str, from: u32) -> Machine {
        machine
            .gid(device, from, "fe80::1", V1, Some(netdev))
            .gid(device, from + 1, "fe80::1", V2, Some(netdev))
            .gid(device, from + 2, ip, V1, Some(netdev))
            .gid(device, from + 3, ip, V2, Some(netdev))
    }

    fn two(from: u32) -> Machine {
        let machine = Machine::default().roce("mlx5_0", 0, "eth1").roce("mlx5_1", 1, "eth2");
        let machine = four_gids(machine, "mlx5_0", "eth1", "::ffff:10.1.0.5", 0);
        four_gids(machine, "mlx5_1", "eth2", "::ffff:10.2.0.5", from)
    }

    #[test]
    fn four_gids_each_need_no_index() {
        let v2 = AddressKind { is_v6: false, version: 2 };
        assert_eq!(policy(&two(0), true, &[]), Ok(GidPolicy::ByAddress(v2, None)));
    }

    #[test]
    fn an_old_nccl_gets_an_index_only_if_it_is_the_same_everywhere() {
        assert_eq!(
            policy(&two(0), false, &[]),
            Ok(GidPolicy::Index(3, AddressKind { is_v6: false, version: 2 }))
        );
        let refused = policy(&two(2), false, &[]).expect_err("they differ");
        assert!(
            refused.contains("mlx5_0:1  GID 3") && refused.contains("mlx5_1:1  GID 5"),
            "{refused}"
        );
    }

    #[test]
    fn an_ipv6_fabric_selects_ipv6() {
        let machine = Machine::default()
            .roce("bnxt_re0", 0, "eth1")
            .gid("bnxt_re0", 0, "fe80::1", V1, Some("eth1"))
            .gid("bnxt_re0", 1, "fe80::1", V2, Some("eth1"))
            .gid("bnxt_re0", 2, "fd00::5", V1, Some("eth1"))
            .gid("bnxt_re0", 3, "fd00::5", V2, Some("eth1"));
        assert_eq!(
            policy(&machine, true, &[]),
            Ok(GidPolicy::ByAddress(AddressKind { is_v6: true, version: 2 }, None))
        );
    }

    #[test]
    fn another_pods_address_before_ours_is_excluded_by_a_range() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "net1")
            .gid("mlx5_0", 0, "fe80::1", V1, Some("net1"))
            .gid("mlx5_0", 2, "::ffff:10.9.0.7", V2, Some("other0"))
            .gid("mlx5_0", 4, "::ffff:10.1.0.5", V2, Some("net1"))
            .address("net1", "10.1.0.5", 16);
        let v2 = AddressKind { is_v6: false, version: 2 };
        let range = Network::of(IpAddr::from([10, 1, 0, 0]), 16);
        assert_eq!(policy(&machine, true, &[]), Ok(GidPolicy::ByAddress(v2, range)));
    }

    #[test]
    fn in_a_shared_network_the_range_is_our_address() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "net1")
            .gid("mlx5_0", 2, "::ffff:10.1.0.4", V2, Some("other0"))
            .gid("mlx5_0", 4, "::ffff:10.1.0.5", V2, Some("net1"))
            .address("net1", "10.1.0.5", 16);
        let v2 = AddressKind { is_v6: false, version: 2 };
        let range = Network::of(IpAddr::from([10, 1, 0, 5]), 32);
        assert_eq!(policy(&machine, true, &[]), Ok(GidPolicy::ByAddress(v2, range)));
    }

    #[test]
    fn of_two_addresses_the_one_in_the_peers_network_is_selected() {
        let machine = Machine::default()
            .roce("mlx5_0", 0, "eth1")
            .gid("mlx5_0", 0, "::ffff:10.1.0.5", V2, Some("eth1"))
            .gid("mlx5_0", 1, "::ffff:10.2.0.5", V2, Some("eth1"))
            .address("eth1", "10.1.0.5", 16)
            .address("eth1", "10.2.0.5", 16);
        let range = |peers: &[&str]| match policy(&machine, true, peers) {
            Ok(GidPolicy::ByAddress(_, range)) => range.map(|range| range.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(range(&[]), None);
        assert_eq!(range(&["10.2.7.7"]).as_deref(), Some("10.2.0.0/16"));
    }

    #[test]
    fn cards_that_support_only_roce_v1() {
        let machine = Machine::default()
            .roce("mlx4_0", 0, "eth1")
            .gid("mlx4_0", 0, "fe80::1", V1, Some("eth1"))
            .gid("mlx4_0", 1, "::ffff:10.1.0.5", V1, Some("eth1"));
        assert_eq!(
            policy(&machine, true, &[]),
            Ok(GidPolicy::ByAddress(AddressKind { is_v6: false, version: 1 }, None))
        );
    }
}
