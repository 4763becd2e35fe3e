//! Ports of one fabric: those of another cannot reach the job's other hosts, and a library that is given them tries.
//!
//! A fabric is known by the networks of its ports, never by their place in a list. On InfiniBand the subnet
//! manager gives each port the prefix of its subnet. On Ethernet nothing names the fabric: there the rates and,
//! where they are known, the addresses of the other hosts tell.

use std::net::IpAddr;

use node::Node;

use super::network::Network;
use super::rail::{Rail, RailKind};
use super::resolve::Resolved;
use super::usable::is_here;

impl Resolved<'_> {
    /// Of all that works, what is of one fabric.
    pub(super) fn keep_one_fabric(&mut self, node: &Node, peers: &[IpAddr]) {
        self.keep_one_subnet();
        let note = self.keep_like_ethernet(node, peers);
        let Some(best) = self.widest() else { return };
        let other = |rail: &Rail| {
            format!("{}, and {} is wider: they cannot be mixed", rail.kind.name(), best.name())
        };
        self.drop_where(|rail| rail.kind != best, other);
        self.notes.extend(note.filter(|_| best == RailKind::Roce));
    }

    /// The kind with the most Gb/s in all.
    fn widest(&self) -> Option<RailKind> {
        let total = |kind: RailKind| gbps(self.rails.iter().filter(|rail| rail.kind == kind));
        let kinds = self.rails.iter().map(|rail| rail.kind);
        kinds.max_by(|one, other| total(*one).total_cmp(&total(*other)).then(other.cmp(one)))
    }

    /// InfiniBand: the subnet with the most Gb/s, then the most ports, then the first name.
    fn keep_one_subnet(&mut self) {
        let is_infiniband = |rail: &Rail| rail.kind == RailKind::InfiniBand;
        let rails = || self.rails.iter().filter(|rail| is_infiniband(rail));
        let of = |subnet: Subnet| rails().filter(move |rail| Subnet::of(rail) == subnet);
        let best = rails().max_by(|one, other| {
            let (a, b) = (Subnet::of(one), Subnet::of(other));
            gbps(of(a))
                .total_cmp(&gbps(of(b)))
                .then(of(a).count().cmp(&of(b).count()))
                .then(other.name().cmp(&one.name()))
        });
        let Some(best) = best.map(Subnet::of) else { return };
        let why = |rail: &Rail| {
            format!("of another fabric: {}, and {} is wider", Subnet::of(rail).name(), best.name())
        };
        self.drop_where(|rail| is_infiniband(rail) && Subnet::of(rail) != best, why);
    }

    /// RoCE: what leads to the peers and all of the same rate, which are rails of the same fabric; where
    /// addresses do not tell, what is about as fast as the fastest. Answers with what a person should know.
    fn keep_like_ethernet(&mut self, node: &Node, peers: &[IpAddr]) -> Option<String> {
        let is_roce = |rail: &Rail| rail.kind == RailKind::Roce;
        // A port without an address is of no use, however fast, and will be dropped for that.
        let counts = |rail: &&Rail| is_roce(rail) && has_address(node, rail);
        let rails: Vec<Rail> = self.rails.iter().filter(counts).copied().collect();
        let fastest = rails.iter().filter_map(mbps).max().unwrap_or(0);
        let is_slow = |rail: &Rail| mbps(rail).is_some_and(|rate| rate * 2 < fastest);
        let leads = |rail: &Rail| leads(node, rail, peers);
        let leading: Vec<Rail> = rails.iter().filter(|rail| leads(rail)).copied().collect();
        if leading.iter().all(is_slow) {
            let why = |rail: &Rail| {
                format!(
                    "{} Gb/s, less than half of what others have ({} Gb/s): taken for another network",
                    rail.gbps(),
                    fastest as f64 / 1000.0
                )
            };
            self.drop_where(|rail| is_roce(rail) && is_slow(rail), why);
            return unsure(&rails, &leading, peers);
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

/// Where the peers' addresses do not tell which ports lead to them.
fn unsure(rails: &[Rail], leading: &[Rail], peers: &[IpAddr]) -> Option<String> {
    const FIX: &str = "the peers' addresses on the fabric, or NCCL_IB_HCA, would tell";
    if !leading.is_empty() {
        return Some(format!(
            "WARNING: the peers' addresses are in a network of {} alone, which is much slower than the other ports \
             and taken for the management network: the faster are used. Should they not lead to the peers: {FIX}",
            names(leading)
        ));
    }
    (rails.len() > 1 && !peers.is_empty()).then(|| {
        format!("no RoCE port is in a network of the peers: whether all ports lead to them is not known; {FIX}")
    })
}

/// A subnet of InfiniBand. Omni-Path says that it is InfiniBand too, and cannot talk to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subnet {
    is_omni_path: bool,
    /// The first half of the port's first GID; `None`: the port does not tell.
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
            None => format!("an {kind} subnet that is not known"),
        }
    }
}

/// Whether a peer is in a network of the port's own.
fn leads(node: &Node, rail: &Rail, peers: &[IpAddr]) -> bool {
    let here = rail.port.gids.iter().filter(|gid| is_here(node, gid));
    let netdevs = here.filter_map(|gid| node.netdev(gid.netdev.value()?));
    let networks = netdevs.flat_map(|netdev| &netdev.ips);
    let mut networks = networks.filter_map(|(address, prefix)| Network::of(*address, *prefix));
    networks.any(|network| peers.iter().any(|peer| network.contains(*peer)))
}

fn has_address(node: &Node, rail: &Rail) -> bool {
    rail.port.gids.iter().any(|gid| is_here(node, gid) && !gid.is_link_local())
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
