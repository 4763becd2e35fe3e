//! Keeps the ports of one fabric: ports of another cannot reach the job's other hosts, and libraries would try.
//!
//! A fabric is identified by the networks of its ports, never by their order. On InfiniBand the subnet
//! manager gives each port the prefix of its subnet. On Ethernet nothing names the fabric: it is derived from the rates and,
//! where they are known, the addresses of the other hosts.

use std::net::IpAddr;

use node::Node;

use super::network::Network;
use super::plan::Request;
use super::resolve::Selection;
use super::usable::is_in_namespace;
use super::usable_port::{PortKind, UsablePort};

impl Selection<'_> {
    /// Drops ports of other fabrics.
    pub(super) fn keep_one_fabric(&mut self, node: &Node, request: &Request) {
        self.keep_one_subnet();
        let note = self.keep_one_ethernet(node, request);
        let Some(best) = self.fastest_kind() else { return };
        let other = |usable: &UsablePort| {
            format!("{}, and {} is faster: they cannot be mixed", usable.kind.name(), best.name())
        };
        self.drop_where(|usable| usable.kind != best, other);
        self.notes.extend(note.filter(|_| best == PortKind::Roce));
    }

    /// The kind with the highest total rate.
    fn fastest_kind(&self) -> Option<PortKind> {
        let total =
            |kind: PortKind| gbps(self.usable_ports.iter().filter(|usable| usable.kind == kind));
        let kinds = self.usable_ports.iter().map(|usable| usable.kind);
        kinds.max_by(|one, other| total(*one).total_cmp(&total(*other)).then(other.cmp(one)))
    }

    /// InfiniBand: keeps the subnet with the highest total rate, then the most ports, then the first name. If at least three
    /// subnets have as many ports of the same rates, each is a rail of one fabric, and all of them are kept.
    fn keep_one_subnet(&mut self) {
        let is_infiniband = |usable: &UsablePort| usable.kind == PortKind::InfiniBand;
        let usable_ports = || self.usable_ports.iter().filter(|usable| is_infiniband(usable));
        let rails_of =
            |subnet: Subnet| usable_ports().filter(move |usable| Subnet::of(usable) == subnet);
        let best = usable_ports().max_by(|one, other| {
            let (a, b) = (Subnet::of(one), Subnet::of(other));
            gbps(rails_of(a))
                .total_cmp(&gbps(rails_of(b)))
                .then(rails_of(a).count().cmp(&rails_of(b).count()))
                .then(other.name().cmp(&one.name()))
        });
        let Some(best) = best.map(Subnet::of) else { return };
        let rates_of = |subnet: Subnet| {
            let mut rates: Vec<Option<u64>> = rails_of(subnet).map(mbps).collect();
            rates.sort_unstable();
            rates
        };
        let mut kept: Vec<Subnet> = Vec::new();
        for subnet in usable_ports().map(Subnet::of) {
            let is_like_best = subnet.prefix.is_some() && rates_of(subnet) == rates_of(best);
            if is_like_best && !kept.contains(&subnet) {
                kept.push(subnet);
            }
        }
        if kept.len() < MIN_RAIL_SUBNETS {
            kept = vec![best];
        }
        let why = |usable: &UsablePort| {
            format!(
                "in another fabric: {}, and {} is faster",
                Subnet::of(usable).name(),
                best.name()
            )
        };
        self.drop_where(|usable| is_infiniband(usable) && !kept.contains(&Subnet::of(usable)), why);
    }

    /// RoCE: keeps ports that lead to the peers and all of the same rate, which are rails of the same fabric; where
    /// addresses do not show it, ports with at least half of the highest rate. Returns a note for the user.
    fn keep_one_ethernet(&mut self, node: &Node, request: &Request) -> Option<String> {
        let peers = request.peers;
        let is_roce = |usable: &UsablePort| usable.kind == PortKind::Roce;
        // A port without an address cannot be used, and is dropped for that later.
        let counts = |usable: &&UsablePort| is_roce(usable) && has_address(node, usable);
        let usable_ports: Vec<UsablePort> =
            self.usable_ports.iter().filter(counts).copied().collect();
        let fastest = usable_ports.iter().filter_map(mbps).max().unwrap_or(0);
        let is_slow = |usable: &UsablePort| mbps(usable).is_some_and(|rate| rate * 2 < fastest);
        let leads = |usable: &UsablePort| leads(node, usable, peers);
        let leading: Vec<UsablePort> =
            usable_ports.iter().filter(|usable| leads(usable)).copied().collect();
        if leading.iter().all(is_slow) {
            let why = |usable: &UsablePort| {
                format!(
                    "{} Gb/s, less than half of the fastest port ({} Gb/s): assumed to be another network",
                    usable.gbps(),
                    fastest as f64 / 1000.0
                )
            };
            self.drop_where(|usable| is_roce(usable) && is_slow(usable), why);
            return uncertainty(&usable_ports, &leading, request);
        }
        let is_like = |usable: &UsablePort| leading.iter().any(|one| mbps(one) == mbps(usable));
        let names = names(&leading);
        let why = |_: &UsablePort| {
            format!(
                "no peer is in its network, and its rate is not that of the ports that lead to peers ({names})"
            )
        };
        self.drop_where(|usable| is_roce(usable) && !leads(usable) && !is_like(usable), why);
        None
    }
}

/// Whether InfiniBand ports are in several subnets: a port reaches only those of its own.
pub(super) fn has_several_subnets(usable_ports: &[UsablePort]) -> bool {
    let is_infiniband = |usable: &&UsablePort| usable.kind == PortKind::InfiniBand;
    let mut prefixes =
        usable_ports.iter().filter(is_infiniband).filter_map(|usable| Subnet::of(usable).prefix);
    let first = prefixes.next();
    prefixes.any(|prefix| Some(prefix) != first)
}

/// Two equal subnets may be a fabric for computing and one for storage; three are rails.
const MIN_RAIL_SUBNETS: usize = 3;

/// A note where the peers' addresses do not show which ports lead to them.
fn uncertainty(
    usable_ports: &[UsablePort],
    leading: &[UsablePort],
    request: &Request,
) -> Option<String> {
    let option = match request.peers_option {
        "" => String::new(),
        option => format!(" ({option})"),
    };
    let fix = format!("pass the peers' addresses on the fabric{option}, or set NCCL_IB_HCA");
    if !leading.is_empty() {
        return Some(format!(
            "WARNING: the peers' addresses are in a network of {} only, which is much slower than the other ports \
             and assumed to be the management network: the faster ports are used. If they do not lead to the peers: {fix}",
            names(leading)
        ));
    }
    (usable_ports.len() > 1 && !request.peers.is_empty()).then(|| {
        format!("no RoCE port is in a network of the peers: it is unknown whether all ports lead to them; {fix}")
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
    fn of(usable: &UsablePort) -> Self {
        let first = usable.port.gids.iter().find(|gid| gid.index == 0);
        let prefix = first.and_then(|gid| Network::of(gid.gid.into(), 64));
        Subnet { is_omni_path: usable.is_omni_path(), prefix }
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
fn leads(node: &Node, usable: &UsablePort, peers: &[IpAddr]) -> bool {
    let gids = usable.port.gids.iter().filter(|gid| is_in_namespace(node, gid));
    let netdevs = gids.filter_map(|gid| node.netdev(gid.netdev.value()?));
    let networks = netdevs.flat_map(|netdev| &netdev.ips);
    let mut networks = networks.filter_map(|(address, prefix)| Network::of(*address, *prefix));
    networks.any(|network| peers.iter().any(|peer| network.contains(*peer)))
}

fn has_address(node: &Node, usable: &UsablePort) -> bool {
    usable.port.gids.iter().any(|gid| is_in_namespace(node, gid) && !gid.is_link_local())
}

fn mbps(usable: &UsablePort) -> Option<u64> {
    usable.port.rate.value().map(|rate| rate.mbps)
}

fn gbps<'r>(usable_ports: impl Iterator<Item = &'r UsablePort<'r>>) -> f64 {
    usable_ports.map(UsablePort::gbps).sum()
}

fn names(usable_ports: &[UsablePort]) -> String {
    usable_ports.iter().map(UsablePort::name).collect::<Vec<_>>().join(", ")
}
