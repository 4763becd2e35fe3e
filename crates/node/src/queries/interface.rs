//! Addresses of net devices, from rtnetlink.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::netlink::{self, Socket, Want};

/// A net device with its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    /// Its index in this network namespace.
    pub index: u32,
    /// In the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
}

/// An address and the network it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// The length of the network prefix in bits.
    pub prefix: u8,
}

pub(super) fn query() -> Option<Vec<Interface>> {
    let mut socket = Socket::route().ok()?;
    let links = socket.query(GET_LINK, Want::All, &[0; LINK_HEADER]).ok()?;
    let addresses = socket.query(GET_ADDRESS, Want::All, &[0; ADDRESS_HEADER]).unwrap_or_default();
    let mut interfaces: Vec<Interface> = links.iter().filter_map(|body| interface(body)).collect();
    for (index, address) in addresses.iter().filter_map(|body| address(body)) {
        let owner = interfaces.iter_mut().find(|interface| interface.index == index);
        owner.into_iter().for_each(|interface| interface.addresses.push(address));
    }
    Some(interfaces)
}

fn interface(body: &[u8]) -> Option<Interface> {
    let (header, rest) = body.split_first_chunk::<LINK_HEADER>()?;
    let name = netlink::find(rest, LINK_NAME).and_then(netlink::text)?;
    Some(Interface { name, index: netlink::number(&header[4..])?, addresses: Vec::new() })
}

/// The interface index and the address; on point-to-point links the local address.
fn address(body: &[u8]) -> Option<(u32, InterfaceAddress)> {
    let (header, rest) = body.split_first_chunk::<ADDRESS_HEADER>()?;
    let value = netlink::find(rest, ADDRESS_LOCAL).or_else(|| netlink::find(rest, ADDRESS))?;
    let address: IpAddr = match header[0] {
        INET => <[u8; 4]>::try_from(value).ok()?.into(),
        INET6 => <[u8; 16]>::try_from(value).ok()?.into(),
        _ => return None,
    };
    Some((netlink::number(&header[4..])?, InterfaceAddress { address, prefix: header[1] }))
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    interface(body);
    address(body);
}

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const LINK_NAME: u16 = 3;
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const INET: u8 = 2;
const INET6: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_with_its_address() {
        let interfaces = query().expect("every kernel has rtnetlink");
        let loopback = interfaces.iter().find(|interface| interface.name == "lo").expect("lo");
        assert!(loopback.addresses.iter().all(|address| address.address.is_loopback()));
    }

    #[test]
    fn an_address_is_parsed() {
        let header = [INET, 24, 0, 0, 7, 0, 0, 0];
        let body = [&header[..], &netlink::attribute(ADDRESS_LOCAL, &[10, 77, 0, 1])].concat();
        let (index, address) = address(&body).expect("an address");
        assert_eq!(index, u32::from_ne_bytes([7, 0, 0, 0]));
        assert_eq!((address.address.to_string().as_str(), address.prefix), ("10.77.0.1", 24));
    }
}
