//! GPUs, and their distance to RDMA devices.

use serde::{Serialize, Serializer};

use crate::{Address, Function, Node, Tree, pci, product};

/// A GPU in sysfs; values from NVML are in the tree's [`QueryResults`](crate::QueryResults).
#[derive(Debug, Clone, Serialize)]
pub struct Gpu {
    /// Its number in PCI order, which NCCL and NVML use too.
    pub index: u32,
    /// Its PCI address.
    pub pci: Address,
    /// `NVIDIA`, `AMD`.
    pub vendor: Option<String>,
    /// The model, if known.
    pub model: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// Its NUMA node, if known.
    pub numa_node: Option<u32>,
}

/// The distance between two PCI functions, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same card.
    Same,
    /// One PCIe switch (`PIX`).
    OneSwitch,
    /// Several PCIe switches, without a root complex (`PXB`).
    Switches,
    /// A root complex (`PHB`).
    HostBridge,
    /// Several root complexes of one NUMA node (`NODE`).
    NumaNode,
    /// The link between NUMA nodes (`SYS`).
    System,
    /// Not known.
    Unknown,
}

impl Distance {
    /// The name in `nvidia-smi topo`.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Same => "SELF",
            Distance::OneSwitch => "PIX",
            Distance::Switches => "PXB",
            Distance::HostBridge => "PHB",
            Distance::NumaNode => "NODE",
            Distance::System => "SYS",
            Distance::Unknown => "?",
        }
    }
}

impl Serialize for Distance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Node {
    /// The distance between two PCI functions.
    pub fn distance(&self, one: Address, other: Address) -> Distance {
        let (Some(a), Some(b)) = (self.pci.get(&one), self.pci.get(&other)) else {
            return Distance::Unknown;
        };
        if card(a) == card(b) {
            return Distance::Same;
        }
        if let Some(meet) = a.above.iter().position(|hop| b.above.contains(hop)) {
            let there = b.above.iter().position(|hop| *hop == a.above[meet]);
            // A switch has one downstream port for each: more ports on the path are more switches.
            let one_switch = meet <= 1 && there.is_some_and(|there| there <= 1);
            return if one_switch { Distance::OneSwitch } else { Distance::Switches };
        }
        if a.host_bridge.is_some() && a.host_bridge == b.host_bridge {
            return Distance::HostBridge;
        }
        match (a.numa_node, b.numa_node) {
            (Some(one), Some(other)) if one == other => Distance::NumaNode,
            (Some(_), Some(_)) => Distance::System,
            // Machines with one node often do not report it.
            _ if self.host.numa_nodes.len() == 1 => Distance::NumaNode,
            _ => Distance::Unknown,
        }
    }
}

/// The card of a function: its bus and slot, for a virtual function those of its physical one.
fn card(function: &Function) -> (u32, u8, u8) {
    let address = function.physical_function.unwrap_or(function.address);
    (address.domain, address.bus, address.device)
}

/// Every GPU.
pub(crate) fn read_all(tree: &Tree) -> Vec<Gpu> {
    let names = tree.list("/sys/bus/pci/devices");
    let mut addresses: Vec<Address> =
        names.iter().filter_map(|name| Address::parse(name)).take(MAX_FUNCTIONS).collect();
    addresses.retain(|address| is_gpu(tree, *address));
    addresses.sort();
    (0..).zip(addresses).map(|(index, address)| read(tree, index, address)).collect()
}

/// Display controllers of servers (ASPEED, Matrox) have other vendors; Intel's GPUs in CPUs are VGA
/// controllers, and its cards have other classes.
fn is_gpu(tree: &Tree, address: Address) -> bool {
    let read = |name: &str| tree.hex(&format!("{}/{name}", address.folder())).into_value();
    let class = read("class").map(|class| class >> 8);
    match class {
        Some(VGA) => matches!(read("vendor"), Some(NVIDIA | AMD)),
        Some(DISPLAY_3D | DISPLAY_OTHER | ACCELERATOR) => {
            matches!(read("vendor"), Some(NVIDIA | AMD | INTEL | HABANA))
        }
        _ => false,
    }
}

fn read(tree: &Tree, index: u32, pci: Address) -> Gpu {
    let folder = pci.folder();
    let id = |name: &str| {
        let id = tree.hex(&format!("{folder}/{name}")).into_value();
        id.and_then(|id| u16::try_from(id).ok())
    };
    let names = product::names(id("vendor"), id("device"));
    Gpu {
        index,
        pci,
        vendor: names.vendor.map(str::to_owned),
        model: names.product.map(str::to_owned),
        driver: tree.link_name(&format!("{folder}/driver")).into_value(),
        numa_node: pci::read_numa_node(tree, &folder),
    }
}

const NVIDIA: u64 = 0x10de;
const AMD: u64 = 0x1002;
const INTEL: u64 = 0x8086;
const HABANA: u64 = 0x1da3;
/// Classes of PCI functions, without the programming interface.
const VGA: u64 = 0x0300;
const DISPLAY_3D: u64 = 0x0302;
const DISPLAY_OTHER: u64 = 0x0380;
const ACCELERATOR: u64 = 0x1200;
/// More functions than this are not read.
const MAX_FUNCTIONS: usize = 8192;
