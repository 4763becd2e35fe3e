//! What one host's ports and net devices transferred.

use node::{Device, Port, Role};
use serde::Serialize;

use super::amount::Amount;
use super::net::{NetTransferred, is_on};
use super::port::PortTransferred;
use super::{Look, Witness};

/// What a host's ports and net devices transferred.
#[derive(Debug, Serialize)]
pub struct HostProof {
    /// As the user calls it.
    pub name: String,
    /// Whether one of the two looks is missing, so that nothing is known of it.
    pub is_blind: bool,
    /// RDMA ports.
    pub ports: Vec<PortTransferred>,
    /// Net devices.
    pub netdevs: Vec<NetTransferred>,
    /// Ports that were there before and not after, or the other way round.
    pub odd: Vec<String>,
    /// Whether RDMA goes through net devices here: rxe, siw.
    #[serde(skip)]
    pub(super) is_software: bool,
}

impl HostProof {
    pub(super) fn of(witness: &Witness<'_>) -> HostProof {
        let mut proof = HostProof {
            name: witness.name.to_owned(),
            is_blind: true,
            ports: Vec::new(),
            netdevs: Vec::new(),
            odd: Vec::new(),
            is_software: witness.node.devices.iter().any(|device| device.role == Role::Software),
        };
        if let (Some(before), Some(after)) = (witness.before, witness.after) {
            proof.is_blind = false;
            proof.netdevs = NetTransferred::of(witness.node, before, after);
            for device in &witness.node.devices {
                for port in &device.ports {
                    proof.look_at(witness, device, port, before, after);
                }
            }
        }
        proof
    }

    fn look_at(
        &mut self,
        witness: &Witness<'_>,
        device: &Device,
        port: &Port,
        before: &Look,
        after: &Look,
    ) {
        let key = (device.name.clone(), port.number);
        let name = format!("{} port {}", device.name, port.number);
        match (before.ports.get(&key), after.ports.get(&key)) {
            (Some(before), Some(after)) => {
                let is_here = |netdev: &&NetTransferred| {
                    let known = witness.node.netdev(&netdev.netdev);
                    known.is_some_and(|netdev| is_on(netdev, port))
                };
                let ipoib: Vec<&NetTransferred> = self.netdevs.iter().filter(is_here).collect();
                self.ports.push(PortTransferred::between(name, before, after, &ipoib));
            }
            (Some(_), None) => self.odd.push(format!("{name} went away while the job ran")),
            (None, Some(_)) => self.odd.push(format!("{name} came while the job ran")),
            (None, None) => self.odd.push(format!("{name} counts nothing")),
        }
    }

    /// What each port sent and received.
    pub(super) fn rdma(&self) -> impl Iterator<Item = (Amount, Amount)> {
        self.ports.iter().filter(|port| port.is_used).map(|port| (port.sent, port.received))
    }

    pub(super) fn is_used(&self) -> bool {
        self.ports.iter().any(|port| port.is_used)
    }

    /// A line for each port that moved, and for what is odd.
    pub(super) fn lines(&self) -> Vec<String> {
        let told = |text: &str| format!("{}: {text}", self.name);
        if self.is_blind {
            return vec![told("its counters could not be read")];
        }
        let ports = self.ports.iter().filter(|port| port.is_used || !port.doubts.is_empty());
        let lines = ports.map(|port| told(&port.line()));
        lines.chain(self.odd.iter().map(|odd| told(odd))).collect()
    }
}
