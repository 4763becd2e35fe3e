//! An RDMA device.

use serde::Serialize;

use crate::{Address, Counter, Guid, Port, Seen};

/// A device of `/sys/class/infiniband`, whatever its driver and its name.
#[derive(Debug, Clone, Serialize)]
pub struct Device {
    /// `mlx5_0`, `rocep59s0f0`.
    pub name: String,
    /// The driver of the card below it: `mlx5_core`; of software, `rxe` or `siw`.
    pub driver: Option<String>,
    /// What kind of node it is on its fabric.
    pub node_type: Seen<NodeType>,
    /// Names it for ever; zero on functions that nobody gave one.
    pub node_guid: Seen<Guid>,
    /// Names the card, which may have several devices.
    pub sys_image_guid: Seen<Guid>,
    /// The card's firmware.
    pub firmware: Seen<String>,
    /// The card's model: `MT4129`.
    pub hca_type: Seen<String>,
    /// The board's name: `MT_0000000838`.
    pub board_id: Seen<String>,
    /// What its administrator calls it.
    pub node_desc: Seen<String>,
    /// Where it is plugged in; software is nowhere.
    pub pci: Option<Address>,
    /// Its NUMA node, if the machine tells.
    pub numa_node: Option<u32>,
    /// The processors near it, as the kernel writes them: `0-15,32-47`.
    pub local_cpus: Option<String>,
    /// Physical function, virtual function of one, or unknown.
    pub role: Role,
    /// The name of its node in `/dev/infiniband`, by which programs use it: `uverbs0`.
    pub uverbs: Option<String>,
    /// From the first.
    pub ports: Vec<Port>,
    /// Counters of the device as a whole.
    pub counters: Vec<Counter>,
}

/// What kind of node it is on its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum NodeType {
    /// InfiniBand and RoCE.
    #[serde(rename = "CA")]
    ChannelAdapter,
    /// An InfiniBand switch.
    #[serde(rename = "switch")]
    Switch,
    /// An InfiniBand router.
    #[serde(rename = "router")]
    Router,
    /// iWARP.
    #[serde(rename = "RNIC")]
    Rnic,
    /// Cisco's.
    #[serde(rename = "usNIC")]
    UsNic,
    /// Cisco's, over UDP.
    #[serde(rename = "usNIC UDP")]
    UsNicUdp,
    /// None of them: EFA.
    #[serde(rename = "unspecified")]
    Unspecified,
}

/// What a device is of its card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A card of its own; with how many virtual functions there are and could be, if it can have any.
    Physical {
        /// Now.
        vfs: Option<u32>,
        /// At most.
        vfs_most: Option<u32>,
    },
    /// A virtual function of the card at this address.
    Virtual {
        /// The card.
        of: Address,
        /// Its number on the card.
        number: Option<u32>,
    },
    /// No card: rxe, siw.
    Software,
}

impl Device {
    /// Where its files are.
    pub fn folder(&self) -> String {
        format!("/sys/class/infiniband/{}", self.name)
    }
}

impl NodeType {
    /// Reads `1: CA`, by its number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split(':').next()?.trim() {
            "1" => NodeType::ChannelAdapter,
            "2" => NodeType::Switch,
            "3" => NodeType::Router,
            "4" => NodeType::Rnic,
            "5" => NodeType::UsNic,
            "6" => NodeType::UsNicUdp,
            "7" => NodeType::Unspecified,
            _ => return None,
        })
    }
}

/// Every RDMA device.
pub(crate) fn read_all(_tree: &crate::Tree) -> Vec<Device> {
    Vec::new()
}
