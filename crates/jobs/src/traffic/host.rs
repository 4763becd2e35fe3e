//! The transfers of one host's ports and net devices.

use node::{Device, Port, Role};
use serde::Serialize;

use super::amount::Amount;
use super::net::{NetDeviceTransfer, is_on};
use super::port::PortTransfer;
use super::{CounterSample, HostSamples};

/// The transfers of a host's ports and net devices.
#[derive(Debug, Serialize)]
pub struct HostTraffic {
    /// The user's name for it.
    pub name: String,
    /// Whether one of the two samples is missing, so that its transfers are unknown.
    pub is_unreadable: bool,
    /// RDMA ports.
    pub ports: Vec<PortTransfer>,
    /// Net devices.
    pub netdevs: Vec<NetDeviceTransfer>,
    /// Ports that appeared or disappeared during the job, or have no counters.
    pub missing: Vec<String>,
    /// Whether its RDMA uses net devices: rxe, siw.
    #[serde(skip)]
    pub(super) is_software: bool,
}

impl HostTraffic {
    pub(super) fn of(samples: &HostSamples<'_>) -> HostTraffic {
        let mut traffic = HostTraffic {
            name: samples.name.to_owned(),
            is_unreadable: true,
            ports: Vec::new(),
            netdevs: Vec::new(),
            missing: Vec::new(),
            is_software: samples.node.devices.iter().any(|device| device.role == Role::Software),
        };
        if let (Some(before), Some(after)) = (samples.before, samples.after) {
            traffic.is_unreadable = false;
            traffic.netdevs = NetDeviceTransfer::of(samples.node, before, after);
            for device in &samples.node.devices {
                for port in &device.ports {
                    traffic.add_port(samples, device, port, before, after);
                }
            }
        }
        traffic
    }

    fn add_port(
        &mut self,
        samples: &HostSamples<'_>,
        device: &Device,
        port: &Port,
        before: &CounterSample,
        after: &CounterSample,
    ) {
        let key = (device.name.clone(), port.number);
        let name = format!("{} port {}", device.name, port.number);
        match (before.ports.get(&key), after.ports.get(&key)) {
            (Some(before), Some(after)) => {
                let is_on_port = |netdev: &&NetDeviceTransfer| {
                    let known = samples.node.netdev(&netdev.netdev);
                    known.is_some_and(|netdev| is_on(netdev, port))
                };
                let ipoib: Vec<&NetDeviceTransfer> =
                    self.netdevs.iter().filter(is_on_port).collect();
                self.ports.push(PortTransfer::between(name, before, after, &ipoib));
            }
            (Some(_), None) => self.missing.push(format!("{name} disappeared while the job ran")),
            (None, Some(_)) => self.missing.push(format!("{name} appeared while the job ran")),
            (None, None) => self.missing.push(format!("{name} has no counters")),
        }
    }

    /// The sent and received amounts of each used port.
    pub(super) fn rdma(&self) -> impl Iterator<Item = (Amount, Amount)> {
        self.ports.iter().filter(|port| port.is_used).map(|port| (port.sent, port.received))
    }

    pub(super) fn is_used(&self) -> bool {
        self.ports.iter().any(|port| port.is_used)
    }

    /// A line for each used or doubtful port, and for each other problem.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |text: &str| format!("{}: {text}", self.name);
        if self.is_unreadable {
            return vec![line("its counters could not be read")];
        }
        let ports = self.ports.iter().filter(|port| port.is_used || !port.warnings.is_empty());
        let lines = ports.map(|port| line(&port.line()));
        lines.chain(self.missing.iter().map(|missing| line(missing))).collect()
    }
}
