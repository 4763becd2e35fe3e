//! A port of an RDMA device.

use serde::Serialize;

use crate::status::PortStatus;
use crate::tree::Kept;
use crate::{Counter, Gid, NetDev, NodeType, Rate, Seen, Tree, gid};

/// A port: what it is connected to, and how.
#[derive(Debug, Clone, Serialize)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// Whether it carries traffic.
    pub state: Seen<PortState>,
    /// Whether there is a wire with someone at its other end.
    pub phys_state: Seen<PhysState>,
    /// What it runs at; of a port that is down, what the driver makes up.
    pub rate: Seen<Rate>,
    /// InfiniBand, Ethernet, or (EFA) neither.
    pub link_layer: Seen<LinkLayer>,
    /// InfiniBand: its address, given by the subnet manager; 0 when there is none.
    pub lid: Seen<u32>,
    /// InfiniBand: the subnet manager's address; 0 when there is none.
    pub sm_lid: Seen<u32>,
    /// What the port can do, as a mask (PortInfo).
    pub cap_mask: Seen<u64>,
    /// The net device of the port, by its GIDs, by its parent, or by its number on the card.
    pub netdev: Option<String>,
    /// The largest packet now. On RoCE by the net device's MTU; elsewhere unknown to files.
    pub active_mtu: Option<u32>,
    /// The GID table without its empty entries.
    pub gids: Vec<Gid>,
    /// How many entries the GID table has.
    pub gid_table_len: u32,
    /// Partition keys that are set, without the empty entries.
    pub pkeys: Vec<u16>,
    /// Counters as their files tell, `counters/` first.
    pub counters: Vec<Counter>,
}

/// Whether a port carries traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum PortState {
    Nop,
    Down,
    /// Physically up, with no subnet manager yet.
    Init,
    Armed,
    Active,
    ActiveDefer,
}

/// Whether there is a wire with someone at its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum PhysState {
    Sleep,
    /// Looks for a partner and finds none.
    Polling,
    /// Switched off at this end.
    Disabled,
    PortConfigurationTraining,
    LinkUp,
    LinkErrorRecovery,
    PhyTest,
    Unknown,
}

/// What is below the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum LinkLayer {
    InfiniBand,
    Ethernet,
    /// Neither: EFA.
    Unknown,
}

impl Port {
    /// Whether it carries traffic now.
    pub fn is_active(&self) -> bool {
        self.state == Seen::Value(PortState::Active)
    }

    /// The counter of a name, whatever folder it is in.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

/// What a port's device tells of it.
pub(crate) struct Of<'d> {
    /// `/sys/class/infiniband/mlx5_0`.
    pub(crate) folder: &'d str,
    pub(crate) node_type: Option<NodeType>,
    /// The net device below it, of software that has one.
    pub(crate) parent: Option<&'d str>,
    /// Net devices of the same PCI function.
    pub(crate) siblings: Vec<&'d NetDev>,
}

/// A device's ports, from the first.
pub(crate) fn read_all(tree: &Tree, of: &Of, netdevs: &[NetDev]) -> Vec<Port> {
    let names = tree.list(&format!("{}/ports", of.folder));
    let numbers = names.iter().filter_map(|name| name.parse().ok()).take(MAX_PORTS);
    numbers.filter_map(|number| read(tree, of, netdevs, number)).collect()
}

fn read(tree: &Tree, of: &Of, netdevs: &[NetDev], number: u32) -> Option<Port> {
    let ports = format!("{}/ports", of.folder);
    let folder = format!("{ports}/{number}");
    let status = PortStatus::read::<Kept<'_>>(tree, &ports, number, &mut |_, _| true)?;
    let text = |name: &str| tree.text(&format!("{folder}/{name}"));
    let hex = |name: &str| tree.hex(&format!("{folder}/{name}"));
    let lid = |name: &str| hex(name).map(|lid| u32::try_from(lid).unwrap_or(u32::MAX));
    let (gids, gid_table_len) = gid::read_table(tree, &folder);
    let link_layer = text("link_layer").parse(LinkLayer::parse);
    let netdev = netdev_of(of, number, link_layer.value().copied(), &gids);
    let mtu = netdevs.iter().find(|known| Some(&known.name) == netdev.as_ref());
    let is_roce = link_layer == Seen::Value(LinkLayer::Ethernet)
        && of.node_type == Some(NodeType::ChannelAdapter);
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

/// The net device of a port: what its GIDs name, else what software stands on, else the one of the same
/// number on the same card (a ConnectX-3 has both ports' on one PCI function).
fn netdev_of(of: &Of, number: u32, layer: Option<LinkLayer>, gids: &[Gid]) -> Option<String> {
    let by_gid = gids.iter().find_map(|gid| gid.netdev.value().cloned());
    by_gid.or_else(|| of.parent.map(str::to_owned)).or_else(|| {
        let arp_type = match layer? {
            LinkLayer::InfiniBand => IPOIB,
            LinkLayer::Ethernet => ETHERNET,
            LinkLayer::Unknown => return None,
        };
        let mut same = of.siblings.iter().filter(|netdev| netdev.arp_type == Seen::Value(arp_type));
        same.find(|netdev| netdev.dev_port.unwrap_or(0) + 1 == number)
            .map(|netdev| netdev.name.clone())
    })
}

/// The largest packet of RoCE that fits with all its headers (the kernel's `iboe_get_mtu`).
fn roce_mtu(netdev_mtu: u32) -> Option<u32> {
    let room = netdev_mtu.checked_sub(ROCE_HEADERS)?;
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| *mtu <= room)
}

/// Subnet managers fill the table from its front, and on InfiniBand each entry is asked of the firmware: a
/// long run of empty ones is taken for its end.
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
        if empty == EMPTY_PKEYS {
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

    /// As the kernel writes it.
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

    /// As the kernel writes it.
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
/// So many empty entries of the partition table in a row are its end.
const EMPTY_PKEYS: u32 = 8;
/// No device has more; a switch has up to 254.
const MAX_PORTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_as_kernels_write_them() {
        assert_eq!(PortState::parse("4: ACTIVE"), Some(PortState::Active));
        assert_eq!(PortState::parse("5: ACTIVE_DEFER"), Some(PortState::ActiveDefer));
        assert_eq!(PortState::parse("9: <unknown>"), None);
        assert_eq!(PhysState::parse("5: LinkUp"), Some(PhysState::LinkUp));
        assert_eq!(PhysState::parse("9: <unknown>"), Some(PhysState::Unknown));
        assert_eq!(PhysState::parse("LinkUp"), None);
    }

    #[test]
    fn a_packet_of_roce_fits_the_net_device() {
        let cases =
            [(1500, Some(1024)), (4200, Some(4096)), (9000, Some(4096)), (4100, Some(2048))];
        for (netdev, expected) in cases.into_iter().chain([(68, None), (352, Some(256))]) {
            assert_eq!(roce_mtu(netdev), expected, "{netdev}");
        }
    }
}
