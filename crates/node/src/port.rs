//! A port of an RDMA device.

use serde::Serialize;

use crate::status::PortStatus;
use crate::tree::CachedFolder;
use crate::{Counter, Gid, NetDev, NodeType, Rate, Reading, Tree, gid};

/// A port.
#[derive(Debug, Clone, Serialize)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// The logical state.
    pub state: Reading<PortState>,
    /// The physical state.
    pub phys_state: Reading<PhysState>,
    /// The current rate; of a port that is down, a value of the driver without meaning.
    pub rate: Reading<Rate>,
    /// InfiniBand, Ethernet, or (EFA) neither.
    pub link_layer: Reading<LinkLayer>,
    /// InfiniBand: its LID, assigned by the subnet manager; 0 if there is none.
    pub lid: Reading<u32>,
    /// InfiniBand: the LID of the subnet manager; 0 if there is none.
    pub sm_lid: Reading<u32>,
    /// The capability mask of the port (PortInfo).
    pub cap_mask: Reading<u64>,
    /// The net device of the port: from its GIDs, its parent, or its number on the NIC.
    pub netdev: Option<String>,
    /// The active MTU. On RoCE it follows from the net device's MTU; elsewhere no file has it.
    pub active_mtu: Option<u32>,
    /// The GID table without its empty entries.
    pub gids: Vec<Gid>,
    /// The number of entries of the GID table.
    pub gid_table_len: u32,
    /// Partition keys that are set, without the empty entries.
    pub pkeys: Vec<u16>,
    /// Counters, `counters/` first.
    pub counters: Vec<Counter>,
}

/// The logical state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names of the specification")]
pub enum PortState {
    Nop,
    Down,
    /// Physically up, but not configured by a subnet manager.
    Init,
    Armed,
    Active,
    ActiveDefer,
}

/// The physical state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names of the specification")]
pub enum PhysState {
    Sleep,
    /// No link partner found.
    Polling,
    /// Disabled at this end.
    Disabled,
    PortConfigurationTraining,
    LinkUp,
    LinkErrorRecovery,
    PhyTest,
    Unknown,
}

/// The link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names of the specification")]
pub enum LinkLayer {
    InfiniBand,
    Ethernet,
    /// Neither: EFA.
    Unknown,
}

impl Port {
    /// Whether it is active.
    pub fn is_active(&self) -> bool {
        self.state == Reading::Value(PortState::Active)
    }

    /// The counter with this name, in any folder.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

/// The facts of a port's device.
pub(crate) struct PortDevice<'d> {
    /// `/sys/class/infiniband/mlx5_0`.
    pub(crate) folder: &'d str,
    pub(crate) node_type: Option<NodeType>,
    /// Of a software device: its net device.
    pub(crate) parent: Option<&'d str>,
    /// Net devices of the same PCI function.
    pub(crate) siblings: Vec<&'d NetDev>,
}

/// A device's ports, from the first.
pub(crate) fn read_all(tree: &Tree, device: &PortDevice, netdevs: &[NetDev]) -> Vec<Port> {
    let names = tree.list(&format!("{}/ports", device.folder));
    let numbers = names.iter().filter_map(|name| name.parse().ok()).take(MAX_PORTS);
    numbers.filter_map(|number| read(tree, device, netdevs, number)).collect()
}

fn read(tree: &Tree, device: &PortDevice, netdevs: &[NetDev], number: u32) -> Option<Port> {
    let ports = format!("{}/ports", device.folder);
    let folder = format!("{ports}/{number}");
    let status = PortStatus::read::<CachedFolder<'_>>(tree, &ports, number, &mut |_, _| true)?;
    let text = |name: &str| tree.text(&format!("{folder}/{name}"));
    let hex = |name: &str| tree.hex(&format!("{folder}/{name}"));
    let lid = |name: &str| hex(name).map(|lid| u32::try_from(lid).unwrap_or(u32::MAX));
    let (gids, gid_table_len) = gid::read_table(tree, &folder);
    let link_layer = text("link_layer").parse(LinkLayer::parse);
    let netdev = netdev_of(device, number, link_layer.value().copied(), &gids);
    let mtu = netdevs.iter().find(|known| Some(&known.name) == netdev.as_ref());
    let is_roce = link_layer == Reading::Value(LinkLayer::Ethernet)
        && device.node_type == Some(NodeType::ChannelAdapter);
    Some(Port {
        number,
        state: status.state,
        phys_state: status.phys_state,
        rate: status.rate,
        link_layer,
        lid: lid("lid"),
        sm_lid: lid("sm_lid"),
        cap_mask: hex("cap_mask"),
        active_mtu: mtu.filter(|_| is_roce).and_then(|netdev| roce_mtu(*netdev.mtu.value()?)),
        netdev,
        gids,
        gid_table_len,
        pkeys: read_pkeys(tree, &folder),
        counters: status.counters,
    })
}

/// The net device of a port: the one its GIDs name, else the parent of a software device, else the one with the same
/// number on the same NIC (a ConnectX-3 has both ports on one PCI function).
fn netdev_of(
    device: &PortDevice,
    number: u32,
    layer: Option<LinkLayer>,
    gids: &[Gid],
) -> Option<String> {
    let by_gid = gids.iter().find_map(|gid| gid.netdev.value().cloned());
    by_gid.or_else(|| device.parent.map(str::to_owned)).or_else(|| {
        let arp_type = match layer? {
            LinkLayer::InfiniBand => IPOIB,
            LinkLayer::Ethernet => ETHERNET,
            LinkLayer::Unknown => return None,
        };
        let mut same =
            device.siblings.iter().filter(|netdev| netdev.arp_type == Reading::Value(arp_type));
        same.find(|netdev| netdev.dev_port.unwrap_or(0) + 1 == number)
            .map(|netdev| netdev.name.clone())
    })
}

/// The largest RoCE MTU that fits with all headers (the kernel's `iboe_get_mtu`).
fn roce_mtu(netdev_mtu: u32) -> Option<u32> {
    let payload = netdev_mtu.checked_sub(ROCE_HEADERS)?;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| *mtu <= payload)
}

/// Subnet managers fill the table from the start, and on InfiniBand each entry is a query to the firmware: many empty
/// entries in a row are taken for its end.
fn read_pkeys(tree: &Tree, folder: &str) -> Vec<u16> {
    let mut pkeys = Vec::new();
    let mut empty = 0;
    let indices = tree.list(&format!("{folder}/pkeys"));
    for index in indices.iter().filter(|index| index.parse::<u16>().is_ok()) {
        let key = tree.hex(&format!("{folder}/pkeys/{index}")).into_value();
        match key.and_then(|key| u16::try_from(key).ok()) {
            None | Some(0) => empty += 1,
            Some(key) => {
                pkeys.push(key);
                empty = 0;
            }
        }
        if empty == MAX_EMPTY_PKEYS {
            break;
        }
    }
    pkeys
}

impl PortState {
    /// Reads `4: ACTIVE`, by its number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split(':').next()?.trim() {
            "0" => PortState::Nop,
            "1" => PortState::Down,
            "2" => PortState::Init,
            "3" => PortState::Armed,
            "4" => PortState::Active,
            "5" => PortState::ActiveDefer,
            _ => return None,
        })
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Nop => "NOP",
            PortState::Down => "DOWN",
            PortState::Init => "INIT",
            PortState::Armed => "ARMED",
            PortState::Active => "ACTIVE",
            PortState::ActiveDefer => "ACTIVE_DEFER",
        }
    }
}

impl PhysState {
    /// Reads `5: LinkUp`, by its number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split(':').next()?.trim().parse::<u32>().ok()? {
            1 => PhysState::Sleep,
            2 => PhysState::Polling,
            3 => PhysState::Disabled,
            4 => PhysState::PortConfigurationTraining,
            5 => PhysState::LinkUp,
            6 => PhysState::LinkErrorRecovery,
            7 => PhysState::PhyTest,
            _ => PhysState::Unknown,
        })
    }
}

impl LinkLayer {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "InfiniBand" => LinkLayer::InfiniBand,
            "Ethernet" => LinkLayer::Ethernet,
            "Unknown" | "Unspecified" => LinkLayer::Unknown,
            _ => return None,
        })
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::Unknown => "Unknown",
        }
    }
}

/// Of `/sys/class/net/X/type`: ARPHRD_ETHER.
const ETHERNET: u32 = 1;
/// ARPHRD_INFINIBAND.
const IPOIB: u32 = 32;
/// GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4.
const ROCE_HEADERS: u32 = 96;
/// This many empty entries in a row are taken for the end of the partition table.
const MAX_EMPTY_PKEYS: u32 = 8;
/// No device has more; a switch has up to 254.
const MAX_PORTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_parsed() {
        assert_eq!(PortState::parse("4: ACTIVE"), Some(PortState::Active));
        assert_eq!(PortState::parse("5: ACTIVE_DEFER"), Some(PortState::ActiveDefer));
        assert_eq!(PortState::parse("9: <unknown>"), None);
        assert_eq!(PhysState::parse("5: LinkUp"), Some(PhysState::LinkUp));
        assert_eq!(PhysState::parse("9: <unknown>"), Some(PhysState::Unknown));
        assert_eq!(PhysState::parse("LinkUp"), None);
    }

    #[test]
    fn the_roce_mtu_fits_the_net_device() {
        let cases =
            [(1500, Some(1024)), (4200, Some(4096)), (9000, Some(4096)), (4100, Some(2048))];
        for (netdev, expected) in cases.into_iter().chain([(68, None), (352, Some(256))]) {
            assert_eq!(roce_mtu(netdev), expected, "{netdev}");
        }
    }
}
