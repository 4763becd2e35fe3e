//! The RDMA subsystem, from netlink (RDMA_NL_NLDEV).

use serde::{Deserialize, Serialize};

use super::netlink::{self, Socket, Want};

/// The facts that `rdma system` and `rdma link` print.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaSystem {
    /// Whether each device belongs to one network namespace; else all namespaces see all devices.
    pub exclusive_netns: Option<bool>,
    /// Every port that this network namespace sees.
    pub links: Vec<RdmaLink>,
}

/// One port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaLink {
    /// `mlx5_0`.
    pub device: String,
    /// From 1.
    pub port: u32,
    /// `ib`, `roce`, `iw`, `opa`.
    pub protocol: Option<String>,
    /// Its state, as in sysfs.
    pub state: Option<u8>,
    /// Its physical state, as in sysfs.
    pub phys_state: Option<u8>,
    /// Its net device.
    pub netdev: Option<String>,
}

/// `None` if the kernel has no RDMA or does not answer.
pub(super) fn query() -> Option<RdmaSystem> {
    let mut socket = Socket::rdma().ok()?;
    let devices = devices(&mut socket)?;
    let system = socket.query(kind(SYSTEM_GET), Want::One, &[]).unwrap_or_default();
    let mut links = Vec::new();
    for device in devices {
        let index = netlink::attribute(DEVICE_INDEX, &device.index.to_ne_bytes());
        let ports = socket.query(kind(PORT_GET), Want::All, &index).unwrap_or_default();
        links.extend(ports.iter().filter_map(|body| device.link(body)));
    }
    Some(RdmaSystem { exclusive_netns: system.iter().find_map(|body| is_exclusive(body)), links })
}

/// Every device that this network namespace sees.
pub(super) fn devices(socket: &mut Socket) -> Option<Vec<Device>> {
    let bodies = socket.query(kind(GET), Want::All, &[]).ok()?;
    Some(bodies.iter().filter_map(|body| Device::parse(body)).take(MAX_DEVICES).collect())
}

/// A device in the list of all devices.
pub(super) struct Device {
    pub(super) index: u32,
    pub(super) name: String,
    protocol: Option<String>,
}

impl Device {
    fn parse(body: &[u8]) -> Option<Self> {
        Some(Device {
            index: netlink::find(body, DEVICE_INDEX).and_then(netlink::number)?,
            name: netlink::find(body, DEVICE_NAME).and_then(netlink::text)?,
            protocol: netlink::find(body, PROTOCOL).and_then(netlink::text),
        })
    }

    fn link(&self, body: &[u8]) -> Option<RdmaLink> {
        let byte = |kind| netlink::find(body, kind).and_then(|value| value.first().copied());
        Some(RdmaLink {
            device: self.name.clone(),
            port: netlink::find(body, PORT_INDEX).and_then(netlink::number)?,
            protocol: self.protocol.clone(),
            state: byte(PORT_STATE),
            phys_state: byte(PORT_PHYS_STATE),
            netdev: netlink::find(body, NETDEV_NAME).and_then(netlink::text),
        })
    }
}

/// Since kernel 5.2 a device can belong to one network namespace.
fn is_exclusive(body: &[u8]) -> Option<bool> {
    netlink::find(body, NETNS_MODE)?.first().map(|shared| *shared == 0)
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    is_exclusive(body);
    if let Some(device) = Device::parse(body) {
        device.link(body);
    }
}

/// Messages of the client NLDEV, by command.
pub(super) fn kind(command: u16) -> u16 {
    5 << 10 | command
}

const GET: u16 = 1;
const PORT_GET: u16 = 5;
const SYSTEM_GET: u16 = 6;

pub(super) const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const PORT_STATE: u16 = 12;
const PORT_PHYS_STATE: u16 = 13;
const NETDEV_NAME: u16 = 51;
const NETNS_MODE: u16 = 66;
const PROTOCOL: u16 = 67;

/// No machine has more.
const MAX_DEVICES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::netlink::attribute;

    #[test]
    fn a_port_is_parsed() {
        let device =
            [attribute(1, &[3, 0, 0, 0]), attribute(2, b"rxe0\0"), attribute(67, b"roce\0")];
        let port = [
            attribute(3, &1u32.to_ne_bytes()),
            attribute(12, &[4]),
            attribute(13, &[5]),
            attribute(51, b"v0\0"),
        ];
        let device = Device::parse(&device.concat()).expect("a device");
        let link = device.link(&port.concat()).expect("a port");
        assert_eq!((link.device.as_str(), link.port, link.state), ("rxe0", 1, Some(4)));
        assert_eq!(link.netdev.as_deref(), Some("v0"));
        assert_eq!(is_exclusive(&attribute(66, &[1])), Some(false));
        assert_eq!(is_exclusive(&attribute(66, &[])), None);
    }
}
