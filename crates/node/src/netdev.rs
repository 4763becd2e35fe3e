//! Net devices.

use std::net::IpAddr;

use serde::Serialize;

use crate::{Address, Seen};

/// A net device of this network namespace.
#[derive(Debug, Clone, Serialize)]
pub struct NetDev {
    /// `eth0`, `ib0`.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Where it is plugged in.
    pub pci: Option<Address>,
    /// Which port of its card it is, from 0.
    pub dev_port: Option<u32>,
    /// What is below it, by number: 1 Ethernet, 32 InfiniBand, 772 loopback.
    pub arp_type: Seen<u32>,
    /// The longest packet.
    pub mtu: Seen<u32>,
    /// Its speed in Mb/s, if it is up and tells.
    pub speed_mbps: Option<u32>,
    /// `up`, `down`, `unknown`, as the kernel writes it.
    pub operstate: Seen<String>,
    /// Whether there is a wire with someone at its other end.
    pub carrier: Option<bool>,
    /// How often the wire came and went.
    pub carrier_changes: Option<u64>,
    /// Its hardware address.
    pub address: Seen<String>,
    /// Addresses with the length of their network's part, where they are known.
    pub ips: Vec<(IpAddr, u8)>,
    /// IPoIB: `datagram` or `connected`.
    pub ipoib_mode: Option<String>,
    /// The bond or bridge that it is in.
    pub master: Option<String>,
    /// If it is a bond.
    pub bonding: Option<Bonding>,
    /// Bytes received and sent.
    pub bytes: (Seen<u64>, Seen<u64>),
}

/// A bond of several net devices.
#[derive(Debug, Clone, Serialize)]
pub struct Bonding {
    /// `802.3ad 4`, as the kernel writes it.
    pub mode: Seen<String>,
    /// Its members.
    pub members: Vec<String>,
}

/// Every net device of this network namespace.
pub(crate) fn read_all(_tree: &crate::Tree) -> Vec<NetDev> {
    Vec::new()
}
