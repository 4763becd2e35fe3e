//! Net devices' addresses, by rtnetlink.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A net device with its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// In the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
}

/// An address and the network it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// How many bits of it name the network.
    pub prefix: u8,
}

pub(super) fn ask() -> Option<Vec<Interface>> {
    None
}
