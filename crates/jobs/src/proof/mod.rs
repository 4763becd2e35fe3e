//! What transferred a job's data, by the counters of each host before and after it.
//!
//! A look is what the counters of RDMA ports and net devices read, taken by [`Look::COMMAND`], which needs no program of ours
//! where it runs. What is above or below what (IPoIB on its port, rxe on its net device) comes from the hosts' facts.
//! Ports count for everybody: what another job moved meanwhile is in the totals, and that is said.
//!
//! Start at [`prove`].

mod amount;
mod counter_sample;
mod host;
mod net;
mod port;
#[cfg(test)]
mod scenarios;

use serde::Serialize;

use crate::job::Mode;
pub use amount::Amount;
pub use counter_sample::Look;
pub use host::HostProof;
pub use net::NetTransferred;
pub use port::{Operations, PortTransferred};

/// A host that took part.
#[derive(Debug)]
pub struct Witness<'w> {
    /// As the user calls it.
    pub name: &'w str,
    /// Its facts, as they were before the job.
    pub node: &'w node::Node,
    /// Its counters before the job; none could be read where it is missing.
    pub before: Option<&'w Look>,
    /// And after it.
    pub after: Option<&'w Look>,
}

/// What was wanted of the job, for the reason if RDMA was not used.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// With RDMA or without, as the user asked.
    pub asked: Mode,
    /// With RDMA or without, as it was then planned.
    pub planned: Mode,
}

/// What transferred a job's data.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// What RDMA transferred between the hosts; none: RDMA was not used.
    pub rdma: Option<Amount>,
    /// What net devices transferred, without loopback.
    pub tcp: Amount,
    /// Whether packets of rxe or siw are in `tcp` too, since they go through net devices.
    pub tcp_has_rdma: bool,
    /// What loopback devices transferred.
    pub loopback: Amount,
    /// Why RDMA was not used, or why that is not known.
    pub why_not: Option<String>,
    /// Whether the counters tell: not if one of several hosts could not be looked at.
    pub is_known: bool,
    /// Host by host.
    pub hosts: Vec<HostProof>,
}

/// Compares two looks at each host.
pub fn prove(witnesses: &[Witness<'_>], wanted: Wanted) -> Proof {
    let hosts: Vec<HostProof> = witnesses.iter().map(HostProof::of).collect();
    let rdma = Amount::transferred(hosts.iter().flat_map(HostProof::rdma));
    // Data goes from host to host: where one alone moved, it was somebody else's. So was all where TCP was planned.
    let moved = hosts.iter().filter(|host| host.is_used()).count();
    let seen = hosts.iter().filter(|host| !host.is_blind).count();
    let is_used = moved >= seen.clamp(1, 2) && wanted.planned != Mode::Tcp;
    let net = |is_loopback: bool| {
        let netdevs = hosts.iter().flat_map(|host| &host.netdevs);
        let those = netdevs.filter(move |netdev| netdev.is_loopback == is_loopback);
        Amount::transferred(those.map(|netdev| (netdev.sent, netdev.received)))
    };
    Proof {
        rdma: is_used.then_some(rdma),
        tcp: net(false),
        tcp_has_rdma: is_used && hosts.iter().any(|host| host.is_software),
        loopback: net(true),
        why_not: (!is_used).then(|| {
            let others = match moved {
                0 => String::new(),
                _ => format!(" (ports transferred {rdma} meanwhile, of others)"),
            };
            why_not(witnesses, &hosts, wanted) + &others
        }),
        is_known: is_used || wanted.planned == Mode::Tcp || seen == hosts.len(),
        hosts,
    }
}

impl Proof {
    /// In one line: `RDMA transferred 41.2 GB, TCP 3.0 MB`.
    pub fn line(&self) -> String {
        let loopback = match self.loopback.bytes {
            Some(1..) => format!(" (loopback {})", self.loopback),
            _ => String::new(),
        };
        match (&self.rdma, &self.why_not) {
            (Some(rdma), _) if self.tcp_has_rdma => {
                format!(
                    "RDMA transferred {rdma}; net devices, with these in it, {}{loopback}",
                    self.tcp
                )
            }
            (Some(rdma), _) => format!("RDMA transferred {rdma}, TCP {}{loopback}", self.tcp),
            (None, why) => {
                let why = why.as_deref().unwrap_or("nothing tells why");
                if !self.is_known {
                    return format!(
                        "whether RDMA was used is not known, because {why}; TCP transferred {}{loopback}",
                        self.tcp
                    );
                }
                format!("RDMA was not used, because {why}; TCP transferred {}{loopback}", self.tcp)
            }
        }
    }

    /// What to know of each host and port, a line each.
    pub fn details(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.hosts.iter().flat_map(HostProof::lines).collect();
        lines.push("totals include other jobs on the same ports and net devices".to_owned());
        lines
    }
}

/// The first reason that explains it.
fn why_not(witnesses: &[Witness<'_>], hosts: &[HostProof], wanted: Wanted) -> String {
    if wanted.asked == Mode::Tcp {
        return "mode tcp asked for TCP".to_owned();
    }
    if let Some(blind) = hosts.iter().find(|host| host.is_blind) {
        return format!("{}'s counters could not be read", blind.name);
    }
    if let Some(without) = witnesses.iter().find(|witness| witness.node.devices.is_empty()) {
        return format!("{} has no RDMA device", without.name);
    }
    let is_up = |witness: &&Witness<'_>| {
        witness.node.devices.iter().flat_map(|device| &device.ports).any(node::Port::is_active)
    };
    if let Some(down) = witnesses.iter().find(|witness| !is_up(witness)) {
        return format!("no RDMA port of {} is active; see `wirelane doctor` there", down.name);
    }
    if wanted.planned == Mode::Tcp {
        return "the job was planned over TCP, as the notes above say".to_owned();
    }
    if let [only] = witnesses {
        return format!("all processes ran on {}, where they share memory", only.name);
    }
    "the RDMA counters did not move: the program used another transport, as one whose MPI or NCCL was built without RDMA; run it with \
     UCX_LOG_LEVEL=info, or NCCL_DEBUG=INFO, which name the transport"
        .to_owned()
}
