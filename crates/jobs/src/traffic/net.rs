//! The transfer of one net device.

use node::{NetDev, Node, Port, Reading};
use serde::Serialize;

use super::amount::Amount;
use super::counter_sample::CounterSample;

/// What a net device transferred between two samples.
#[derive(Debug, Clone, Serialize)]
pub struct NetDeviceTransfer {
    /// `eth0`.
    pub netdev: String,
    /// What it sent.
    pub sent: Amount,
    /// What it received.
    pub received: Amount,
    /// In both directions together.
    #[serde(skip)]
    pub(super) packets: u64,
    /// Whether it is a loopback device.
    pub is_loopback: bool,
}

impl NetDeviceTransfer {
    /// Devices of NICs, and loopback. A device on another one (a bond, a bridge, a VLAN) would count
    /// packets twice; without devices of NICs, as in a network namespace, all are counted.
    pub(super) fn of(
        node: &Node,
        before: &CounterSample,
        after: &CounterSample,
    ) -> Vec<NetDeviceTransfer> {
        let is_nic = |netdev: &NetDev| netdev.pci.is_some();
        let has_nics = node.netdevs.iter().any(is_nic);
        let is_counted = |netdev: &&NetDev| {
            is_loopback(netdev)
                || is_infiniband(netdev) && netdev.bonding.is_none()
                || if has_nics { is_nic(netdev) } else { netdev.bonding.is_none() }
        };
        let transferred = |netdev: &NetDev| {
            let (before, after) =
                (before.netdevs.get(&netdev.name)?, after.netdevs.get(&netdev.name)?);
            Some(NetDeviceTransfer {
                netdev: netdev.name.clone(),
                sent: difference(before.sent, after.sent),
                received: difference(before.received, after.received),
                packets: after.packets.saturating_sub(before.packets),
                is_loopback: is_loopback(netdev),
            })
        };
        node.netdevs.iter().filter(is_counted).filter_map(transferred).collect()
    }
}

/// A lower value means that the net device was created again, and counted from 0.
fn difference(before: Option<u64>, after: Option<u64>) -> Amount {
    let bytes = before.zip(after).map(|(before, after)| after.checked_sub(before).unwrap_or(after));
    Amount { bytes, packets: None }
}

/// Whether a net device is IPoIB on this port: its hardware address ends in the port's GUID, as the port's GIDs do.
pub(super) fn is_on(netdev: &NetDev, port: &Port) -> bool {
    if !is_infiniband(netdev) {
        return false;
    }
    let Some(address) = netdev.address.value() else {
        return port.netdev.as_ref() == Some(&netdev.name);
    };
    let octets: String = address.split(':').collect();
    let guid = octets.get(octets.len().saturating_sub(16)..);
    port.gids.iter().any(|gid| {
        let interface = gid.gid.to_bits() as u64;
        guid.is_some_and(|guid| guid == format!("{interface:016x}"))
    })
}

fn is_infiniband(netdev: &NetDev) -> bool {
    netdev.arp_type == Reading::Value(32)
}

fn is_loopback(netdev: &NetDev) -> bool {
    netdev.arp_type == Reading::Value(772)
}
