//! What transferred a job's data, from the counters of each host before and after it.
//!
//! A sample has the counters of RDMA ports and net devices. It is read with [`CounterSample::COMMAND`], which does not need
//! our program on the host. Which device is on which (IPoIB on its port, rxe on its net device) is in the hosts' facts.
//! Counters include other jobs on the same ports, and a note says so.
//!
//! Start at [`job_traffic`].

mod amount;
mod counter_sample;
mod host;
mod net;
mod port;
#[cfg(test)]
mod scenarios;

use serde::Serialize;

use crate::environment::Mode;
pub use amount::Amount;
pub use counter_sample::CounterSample;
pub use host::HostTraffic;
pub use net::NetDeviceTransfer;
pub use port::{Operations, PortTransfer};

/// A host of the job, with its counters.
#[derive(Debug)]
pub struct HostSamples<'w> {
    /// The user's name for it.
    pub name: &'w str,
    /// Its facts before the job.
    pub node: &'w node::Node,
    /// Its counters before the job; `None`: not readable.
    pub before: Option<&'w CounterSample>,
    /// Its counters after the job.
    pub after: Option<&'w CounterSample>,
}

/// The mode of the job, to explain why RDMA was not used.
#[derive(Debug, Clone, Copy)]
pub struct ModeChoice {
    /// The mode that the user requested.
    pub requested: Mode,
    /// The mode that was planned.
    pub planned: Mode,
}

/// What transferred a job's data.
#[derive(Debug, Serialize)]
pub struct Traffic {
    /// What RDMA transferred between the hosts; `None`: RDMA was not used.
    pub rdma: Option<Amount>,
    /// What net devices transferred, without loopback.
    pub tcp: Amount,
    /// Whether `tcp` includes packets of rxe or siw, which use net devices.
    pub tcp_has_rdma: bool,
    /// What loopback devices transferred.
    pub loopback: Amount,
    /// Why RDMA was not used, or why that is unknown.
    pub why_not: Option<String>,
    /// Whether the result is certain: not if the counters of a host could not be read.
    pub is_known: bool,
    /// One per host.
    pub hosts: Vec<HostTraffic>,
}

/// Compares the two samples of each host.
pub fn job_traffic(samples: &[HostSamples<'_>], wanted: ModeChoice) -> Traffic {
    let hosts: Vec<HostTraffic> = samples.iter().map(HostTraffic::of).collect();
    let rdma = Amount::transferred(hosts.iter().flat_map(HostTraffic::rdma));
    // Data is transferred between hosts: traffic of only one host belongs to others, and so does all traffic of a job over TCP.
    let used = hosts.iter().filter(|host| host.is_used()).count();
    let readable = hosts.iter().filter(|host| !host.is_unreadable).count();
    let is_used = used >= readable.clamp(1, 2) && wanted.planned != Mode::Tcp;
    let net = |is_loopback: bool| {
        let netdevs = hosts.iter().flat_map(|host| &host.netdevs);
        let those = netdevs.filter(move |netdev| netdev.is_loopback == is_loopback);
        Amount::transferred(those.map(|netdev| (netdev.sent, netdev.received)))
    };
    Traffic {
        rdma: is_used.then_some(rdma),
        tcp: net(false),
        tcp_has_rdma: is_used && hosts.iter().any(|host| host.is_software),
        loopback: net(true),
        why_not: (!is_used).then(|| {
            let others = match used {
                0 => String::new(),
                _ => format!(" (other programs transferred {rdma} on the ports)"),
            };
            why_not(samples, &hosts, wanted) + &others
        }),
        is_known: is_used || wanted.planned == Mode::Tcp || readable == hosts.len(),
        hosts,
    }
}

impl Traffic {
    /// In one line: `RDMA transferred 41.2 GB, TCP 3.0 MB`.
    pub fn line(&self) -> String {
        let loopback = match self.loopback.bytes {
            Some(1..) => format!(" (loopback {})", self.loopback),
            _ => String::new(),
        };
        match (&self.rdma, &self.why_not) {
            (Some(rdma), _) if self.tcp_has_rdma => {
                format!(
                    "RDMA transferred {rdma}; net devices, including these, {}{loopback}",
                    self.tcp
                )
            }
            (Some(rdma), _) => format!("RDMA transferred {rdma}, TCP {}{loopback}", self.tcp),
            (None, why) => {
                let why = why.as_deref().unwrap_or("the reason is unknown");
                if !self.is_known {
                    return format!(
                        "it is unknown whether RDMA was used, because {why}; TCP transferred {}{loopback}",
                        self.tcp
                    );
                }
                format!("RDMA was not used, because {why}; TCP transferred {}{loopback}", self.tcp)
            }
        }
    }

    /// Details of each host and port, a line each.
    pub fn details(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.hosts.iter().flat_map(HostTraffic::lines).collect();
        lines.push("totals include other jobs on the same ports and net devices".to_owned());
        lines
    }
}

/// The first reason that explains it.
fn why_not(samples: &[HostSamples<'_>], hosts: &[HostTraffic], wanted: ModeChoice) -> String {
    if wanted.requested == Mode::Tcp {
        return "mode tcp was requested".to_owned();
    }
    if let Some(unreadable) = hosts.iter().find(|host| host.is_unreadable) {
        return format!("{}'s counters could not be read", unreadable.name);
    }
    if let Some(without) = samples.iter().find(|host| host.node.devices.is_empty()) {
        return format!("{} has no RDMA device", without.name);
    }
    let is_up = |host: &&HostSamples<'_>| {
        host.node.devices.iter().flat_map(|device| &device.ports).any(node::Port::is_active)
    };
    if let Some(down) = samples.iter().find(|host| !is_up(host)) {
        return format!("no RDMA port of {} is active; see `wirelane doctor` there", down.name);
    }
    if wanted.planned == Mode::Tcp {
        return "the job was planned over TCP, see the notes above".to_owned();
    }
    if let [only] = samples {
        return format!("all processes ran on {}, over shared memory", only.name);
    }
    "the RDMA counters did not change: the program used another transport, for example an MPI or NCCL built without RDMA; run it with \
     UCX_LOG_LEVEL=info or NCCL_DEBUG=INFO, which print the transport"
        .to_owned()
}
