//! An RDMA device.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counters::CounterSource;
use crate::name::is_name;
use crate::port::{self, PortDevice};
use crate::tree::CachedFolder;
use crate::{Address, Counter, Guid, NetDev, Port, Reading, Tree, counters, pci};

/// A device of `/sys/class/infiniband`.
#[derive(Debug, Clone, Serialize)]
pub struct Device {
    /// `mlx5_0`, `rocep59s0f0`.
    pub name: String,
    /// The driver of the NIC below it: `mlx5_core`; of software, `rxe` or `siw`.
    pub driver: Option<String>,
    /// Its kind of node on the fabric.
    pub node_type: Reading<NodeType>,
    /// Its permanent identifier; zero on functions without one.
    pub node_guid: Reading<Guid>,
    /// The identifier of the NIC, which may have several devices.
    pub sys_image_guid: Reading<Guid>,
    /// The NIC's firmware.
    pub firmware: Reading<String>,
    /// The NIC's model: `MT4129`.
    pub hca_type: Reading<String>,
    /// The board's name: `MT_0000000838`.
    pub board_id: Reading<String>,
    /// A description set by the administrator.
    pub node_desc: Reading<String>,
    /// Its PCI address; software has none.
    pub pci: Option<Address>,
    /// Its NUMA node, if known.
    pub numa_node: Option<u32>,
    /// Its local CPUs, as the kernel writes them: `0-15,32-47`.
    pub local_cpus: Option<String>,
    /// Physical function, virtual function of one, or unknown.
    pub role: Role,
    /// The name of its device node in `/dev/infiniband`: `uverbs0`.
    pub uverbs: Option<String>,
    /// From the first.
    pub ports: Vec<Port>,
    /// Counters of the device as a whole.
    pub counters: Vec<Counter>,
}

/// The kind of a node on the fabric.
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

/// The kind of a device's function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A physical function, with its number of virtual functions if it supports them.
    Physical {
        /// The current number.
        vfs: Option<u32>,
        /// The maximum number.
        vfs_max: Option<u32>,
    },
    /// A virtual function.
    Virtual {
        /// Its physical function.
        of: Address,
        /// Its number on the NIC.
        number: Option<u32>,
    },
    /// Software: rxe, siw.
    Software,
    /// Not known.
    Unknown,
}

impl Device {
    /// The folder of its files.
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
pub(crate) fn read_all(tree: &Tree, netdevs: &[NetDev]) -> Vec<Device> {
    let uverbs = read_uverbs(tree);
    let names = tree.list(CLASS);
    let names = names.iter().filter(|name| is_name(name)).take(MAX_DEVICES);
    names.map(|name| read(tree, netdevs, &uverbs, name)).collect()
}

fn read(tree: &Tree, netdevs: &[NetDev], uverbs: &BTreeMap<String, String>, name: &str) -> Device {
    let folder = format!("{CLASS}/{name}");
    let text = |name: &str| tree.text(&format!("{folder}/{name}"));
    let node_type = text("node_type").parse(NodeType::parse);
    let nic = tree.real(&format!("{folder}/device")).into_value();
    let parent = text("parent").into_value().filter(|name| is_name(name));
    let software = software(tree, &folder, parent.is_some(), nic.is_some());
    let pci = nic.as_deref().filter(|_| software.is_none()).and_then(pci::address_in);
    let near = pci.map_or_else(|| format!("{folder}/device"), Address::folder);
    let siblings = netdevs.iter().filter(|netdev| pci.is_some() && netdev.pci == pci).collect();
    let port_device = PortDevice {
        folder: &folder,
        node_type: node_type.value().copied(),
        parent: parent.as_deref(),
        siblings,
    };
    Device {
        name: name.to_owned(),
        ports: port::read_all(tree, &port_device, netdevs),
        node_type,
        node_guid: text("node_guid").parse(Guid::parse),
        sys_image_guid: text("sys_image_guid").parse(Guid::parse),
        firmware: text("fw_ver").one_line(),
        hca_type: text("hca_type").one_line(),
        board_id: text("board_id").one_line(),
        node_desc: text("node_desc").one_line(),
        role: match (software, pci) {
            (Some(_), _) => Role::Software,
            (None, Some(address)) => role(tree, address),
            (None, None) => Role::Unknown,
        },
        driver: software
            .map(str::to_owned)
            .or_else(|| tree.link_name(&format!("{folder}/device/driver")).into_value()),
        pci,
        numa_node: pci::read_numa_node(tree, &near),
        local_cpus: tree.text(&format!("{near}/local_cpulist")).one_line().into_value(),
        uverbs: uverbs.get(name).cloned(),
        counters: counters::read::<CachedFolder<'_>>(
            tree,
            &folder,
            CounterSource::HwCounters,
            &mut |_, _| true,
        ),
    }
}

/// The driver of a software device. Only rxe has a file with its net device; before Linux 5.12
/// both are below the net device's NIC.
fn software(tree: &Tree, folder: &str, has_parent: bool, has_nic: bool) -> Option<&'static str> {
    if has_parent {
        return Some("rxe");
    }
    let is_virtual = || {
        let real = tree.real(folder).into_value();
        real.is_some_and(|real| real.starts_with("/sys/devices/virtual/"))
    };
    if has_nic || !is_virtual() {
        return None;
    }
    let node_type = tree.text(&format!("{folder}/node_type")).parse(NodeType::parse);
    Some(if node_type == Reading::Value(NodeType::Rnic) { "siw" } else { "rxe" })
}

fn role(tree: &Tree, address: Address) -> Role {
    match pci::read_physical_function(tree, address) {
        Some(of) => {
            let numbers = pci::read_virtual_functions(tree, of);
            let number = numbers.iter().find(|(_, function)| **function == address);
            Role::Virtual { of, number: number.map(|(number, _)| *number) }
        }
        None => {
            let count = |name| tree.number(&format!("{}/{name}", address.folder())).into_value();
            Role::Physical { vfs: count("sriov_numvfs"), vfs_max: count("sriov_totalvfs") }
        }
    }
}

/// The names of device nodes by device.
fn read_uverbs(tree: &Tree) -> BTreeMap<String, String> {
    let nodes = tree.list(VERBS_CLASS).into_iter().filter(|node| node.starts_with("uverbs"));
    nodes
        .filter_map(|node| {
            let device = tree.text(&format!("{VERBS_CLASS}/{node}/ibdev")).into_value()?;
            Some((device, node))
        })
        .collect()
}

const CLASS: &str = "/sys/class/infiniband";
const VERBS_CLASS: &str = "/sys/class/infiniband_verbs";
/// No machine has more, including virtual functions.
const MAX_DEVICES: usize = 4096;
