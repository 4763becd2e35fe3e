//! Net devices.

use std::net::IpAddr;

use serde::Serialize;

use crate::name::is_name;
use crate::{Address, Reading, Tree, pci};

/// A net device of this network namespace.
#[derive(Debug, Clone, Serialize)]
pub struct NetDev {
    /// `eth0`, `ib0`.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Its PCI address.
    pub pci: Option<Address>,
    /// Its port number on the NIC, from 0.
    pub dev_port: Option<u32>,
    /// Its hardware type: 1 Ethernet, 32 InfiniBand, 772 loopback.
    pub arp_type: Reading<u32>,
    /// The MTU.
    pub mtu: Reading<u32>,
    /// Its speed in Mb/s, if it is up and known.
    pub speed_mbps: Option<u32>,
    /// `up`, `down`, `unknown`, as the kernel writes it.
    pub operstate: Reading<String>,
    /// Whether it has a carrier.
    pub carrier: Option<bool>,
    /// The number of carrier changes.
    pub carrier_changes: Option<u64>,
    /// Its hardware address.
    pub address: Reading<String>,
    /// Addresses with their prefix lengths, if known.
    pub ips: Vec<(IpAddr, u8)>,
    /// IPoIB: `datagram` or `connected`.
    pub ipoib_mode: Option<String>,
    /// The bond or bridge that it belongs to.
    pub master: Option<String>,
    /// The bond's settings, if it is one.
    pub bonding: Option<Bonding>,
    /// Bytes received and sent.
    pub bytes: (Reading<u64>, Reading<u64>),
}

/// A bond of several net devices.
#[derive(Debug, Clone, Serialize)]
pub struct Bonding {
    /// `802.3ad 4`, as the kernel writes it.
    pub mode: Reading<String>,
    /// Its members.
    pub members: Vec<String>,
}

/// Every net device of this network namespace.
pub(crate) fn read_all(tree: &Tree) -> Vec<NetDev> {
    let names = tree.list(CLASS);
    let names = names.iter().filter(|name| is_name(name)).take(MAX_NETDEVS);
    names.filter_map(|name| read(tree, name)).collect()
}

/// `None` for `bonding_masters`, which is a file among the devices.
fn read(tree: &Tree, name: &str) -> Option<NetDev> {
    let folder = format!("{CLASS}/{name}");
    let text = |name: &str| tree.text(&format!("{folder}/{name}"));
    let arp_type = tree.number(&format!("{folder}/type"));
    if arp_type.is_absent() {
        return None;
    }
    let nic = tree.real(&format!("{folder}/device")).into_value();
    let bytes = |name: &str| tree.number(&format!("{folder}/statistics/{name}"));
    let bonding = if nic.is_none() { read_bonding(tree, &folder) } else { None };
    // Only NICs and bonds have a speed; a bond's is the sum of its members'.
    let has_speed = nic.is_some() || bonding.is_some();
    Some(NetDev {
        name: name.to_owned(),
        driver: tree.link_name(&format!("{folder}/device/driver")).into_value(),
        pci: nic.as_deref().and_then(pci::address_in),
        dev_port: nic.as_ref().and_then(|_| read_dev_port(tree, &folder)),
        ipoib_mode: match arp_type {
            Reading::Value(INFINIBAND) => text("mode").into_value().filter(|mode| is_name(mode)),
            _ => None,
        },
        arp_type,
        mtu: tree.number(&format!("{folder}/mtu")),
        speed_mbps: if has_speed { text("speed").parse(parse_speed).into_value() } else { None },
        operstate: text("operstate").parse(|state| is_name(state).then(|| state.to_owned())),
        carrier: text("carrier").into_value().map(|carrier| carrier == "1"),
        carrier_changes: tree.number(&format!("{folder}/carrier_changes")).into_value(),
        address: text("address").parse(|text| is_hardware_address(text).then(|| text.to_owned())),
        ips: addresses(tree, name),
        master: tree.link_name(&format!("{folder}/master")).into_value(),
        bonding,
        bytes: (bytes("rx_bytes"), bytes("tx_bytes")),
    })
}

fn addresses(tree: &Tree, name: &str) -> Vec<(IpAddr, u8)> {
    let interfaces = tree.query_results().interfaces().map_or(&[][..], Vec::as_slice);
    let addresses = interfaces.iter().filter(|known| known.name == name);
    addresses
        .flat_map(|known| &known.addresses)
        .map(|known| (known.address, known.prefix))
        .collect()
}

/// Kernels before 3.15 have the port number in `dev_id`. It is read only there: later ones log a warning when it is
/// read.
fn read_dev_port(tree: &Tree, folder: &str) -> Option<u32> {
    match tree.number(&format!("{folder}/dev_port")) {
        Reading::Value(port) => Some(port),
        _ => u32::try_from(tree.hex(&format!("{folder}/dev_id")).into_value()?).ok(),
    }
}

fn read_bonding(tree: &Tree, folder: &str) -> Option<Bonding> {
    let mode = tree.text(&format!("{folder}/bonding/mode"));
    if mode.is_absent() {
        return None;
    }
    let members = tree.text(&format!("{folder}/bonding/slaves")).into_value().unwrap_or_default();
    let members = members.split_whitespace().filter(|name| is_name(name)).map(str::to_owned);
    let plain = |text: &str| (!text.contains(char::is_control)).then(|| text.to_owned());
    Some(Bonding { mode: mode.parse(plain), members: members.take(MAX_NETDEVS).collect() })
}

/// `-1` is unknown; some drivers write it as 4294967295.
fn parse_speed(text: &str) -> Option<u32> {
    text.parse().ok().filter(|speed| (1..u32::MAX).contains(speed))
}

/// Six bytes, or twenty on InfiniBand.
fn is_hardware_address(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
}

const CLASS: &str = "/sys/class/net";
/// ARPHRD_INFINIBAND.
const INFINIBAND: u32 = 32;
/// More are not read; a node with thousands of pods has as many.
const MAX_NETDEVS: usize = 16384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_speed_is_none() {
        let speed = |text| parse_speed(text);
        assert_eq!([speed("100000"), speed("-1"), speed("0")], [Some(100_000), None, None]);
        assert_eq!(speed("4294967295"), None);
    }
}
