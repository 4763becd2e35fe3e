//! Keeps the ports of one fabric: ports of another cannot reach the job's other hosts, and libraries would try.
//!
//! A fabric is identified by the networks of its ports, never by their order. On InfiniBand the subnet
//! manager gives each port the prefix of its subnet. On Ethernet nothing names the fabric: it is derived from the rates and,
//! where they are known, the addresses of the other hosts.

use std::net::IpAddr;

use node::Node;

use super::network::Network;
use super::rail::{Rail, RailKind};
use super::resolve::Selection;
use super::usable::is_in_namespace;

impl Selection<'_> {
    /// Drops ports of other fabrics.
    pub(super) fn keep_one_fabric(&mut self, node: &Node, peers: &[IpAddr]) {
        self.keep_one_subnet();
        let note = self.keep_one_ethernet(node, peers);
        let Some(best) = self.fastest_kind() else { return };
        let other = |rail: &Rail| {
            format!("{}, and {} is faster: they cannot be mixed", rail.kind.name(), best.name())
        };
        self.drop_where(|rail| rail.kind != best, other);
        self.notes.extend(note.filter(|_| best == RailKind::Roce));
    }

    /// The kind with the highest total rate.
    fn fastest_kind(&self) -> Option<RailKind> {
        let total = |kind: RailKind| gbps(self.rails.iter().filter(|rail| rail.kind == kind));
        let kinds = self.rails.iter().map(|rail| rail.kind);
        kinds.max_by(|one, other| total(*one).total_cmp(&total(*other)).then(other.cmp(one)))
    }

    /// InfiniBand: keeps the subnet with the highest total rate, then the most ports, then the first name.
    fn keep_one_subnet(&mut self) {
        let is_infiniband = |rail: &Rail| rail.kind == RailKind::InfiniBand;
        let rails = || self.rails.iter().filter(|rail| is_infiniband(rail));
        let rails_of = |subnet: Subnet| rails().filter(move |rail| Subnet::of(rail) == subnet);
        let best = rails().max_by(|one, other| {
            let (a, b) = (Subnet::of(one), Subnet::of(other));
            gbps(rails_of(a))
                .total_cmp(&gbps(rails_of(b)))
                .then(rails_of(a).count().cmp(&rails_of(b).count()))
                .then(other.name().cmp(&one.name()))
        });
        let Some(best) = best.map(Subnet::of) else { return };
        let why = |rail: &Rail| {
            format!("in another fabric: {}, and {} is faster", Subnet::of(rail).name(), best.name())
        };
        self.drop_where(|rail| is_infiniband(rail) && Subnet::of(rail) != best, why);
    }

    /// RoCE: keeps ports that lead to the peers and all of the same rate, which are rails of the same fabric; where
    /// addresses do not show it, ports with at least half of the highest rate. Returns a note for the user.
    fn keep_one_ethernet(&mut self, node: &Node, peers: &[IpAddr]) -> Option<String> {
        let is_roce = |rail: &Rail| rail.kind == RailKind::Roce;
        // A port without an address cannot be used, and is dropped for that later.
        let counts = |rail: &&Rail| is_roce(rail) && has_address(node, rail);
        let rails: Vec<Rail> = self.rails.iter().filter(counts).copied().collect();
        let fastest = rails.iter().filter_map(mbps).max().unwrap_or(0);
        let is_slow = |rail: &Rail| mbps(rail).is_some_and(|rate| rate * 2 < fastest);
        let leads = |rail: &Rail| leads(node, rail, peers);
        let leading: Vec<Rail> = rails.iter().filter(|rail| leads(rail)).copied().collect();
        if leading.iter().all(is_slow) {
            let why = |rail: &Rail| {
                format!(
                    "{} Gb/s, less than half of the fastest port ({} Gb/s): assumed to be another network",
                    rail.gbps(),
                    fastest as f64 / 1000.0
                )
            };
            self.drop_where(|rail| is_roce(rail) && is_slow(rail), why);
            return uncertainty(&rails, &leading, peers);
        }
        let is_like = |rail: &Rail| leading.iter().any(|one| mbps(one) == mbps(rail));
        let names = names(&leading);
        let why = |_: &Rail| {
            format!(
                "no peer is in its network, and its rate is not that of the ports that lead to peers ({names})"
            )
        };
        self.drop_where(|rail| is_roce(rail) && !leads(rail) && !is_like(rail), why);
        None
    }
}

/// A note where the peers' addresses do not show which ports lead to them.
fn uncertainty(rails: &[Rail], leading: &[Rail], peers: &[IpAddr]) -> Option<String> {
    const FIX: &str = "pass the peers' addresses on the fabric, or set NCCL_IB_HCA";
    if !leading.is_empty() {
        return Some(format!(
            "WARNING: the peers' addresses are in a network of {} only, which is much slower than the other ports \
             and assumed to be the management network: the faster ports are used. If they do not lead to the peers: {FIX}",
            names(leading)
        ));
    }
    (rails.len() > 1 && !peers.is_empty()).then(|| {
        format!("no RoCE port is in a network of the peers: it is unknown whether all ports lead to them; {FIX}")
    })
}

/// An InfiniBand subnet. Omni-Path ports report InfiniBand too, and cannot connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subnet {
    is_omni_path: bool,
    /// The first half of the port's first GID; `None`: unknown.
    prefix: Option<Network>,
}

impl Subnet {
    fn of(rail: &Rail) -> Self {
        let first = rail.port.gids.iter().find(|gid| gid.index == 0);
        let prefix = first.and_then(|gid| Network::of(gid.gid.into(), 64));
        Subnet { is_omni_path: rail.is_omni_path(), prefix }
    }

    fn name(self) -> String {
        let kind = if self.is_omni_path { "Omni-Path" } else { "InfiniBand" };
        match self.prefix {
            Some(prefix) => format!("{kind} subnet {prefix}"),
            None => format!("an unknown {kind} subnet"),
        }
    }
}

/// Whether a peer is in a network of the port.
fn leads(node: &Node, rail: &Rail, peers: &[IpAddr]) -> bool {
    let gids = rail.port.gids.iter().filter(|gid| is_in_namespace(node, gid));
    let netdevs = gids.filter_map(|gid| node.netdev(gid.netdev.value()?));
    let networks = netdevs.flat_map(|netdev| &netdev.ips);
    let mut networks = networks.filter_map(|(address, prefix)| Network::of(*address, *prefix));
    networks.any(|network| peers.iter().any(|peer| network.contains(*peer)))
}

fn has_address(node: &Node, rail: &Rail) -> bool {
    rail.port.gids.iter().any(|gid| is_in_namespace(node, gid) && !gid.is_link_local())
}

fn mbps(rail: &Rail) -> Option<u64> {
    rail.port.rate.value().map(|rate| rate.mbps)
}

fn gbps<'r>(rails: impl Iterator<Item = &'r Rail<'r>>) -> f64 {
    rails.map(Rail::gbps).sum()
}

fn names(rails: &[Rail]) -> String {
    rails.iter().map(Rail::name).collect::<Vec<_>>().join(", ")
}
