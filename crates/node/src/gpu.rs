//! GPUs, and how far they are from RDMA devices.

use serde::Serialize;

use crate::Address;

/// A GPU that sysfs shows; what NVML knows of it is in the answers.
#[derive(Debug, Clone, Serialize)]
pub struct Gpu {
    /// Its number in PCI order, which NCCL and NVML use too.
    pub index: u32,
    /// Where it is.
    pub pci: Address,
    /// `NVIDIA`, `AMD`, or the vendor's name as the list of PCI ids has it.
    pub vendor: Option<String>,
    /// The model, as the list of PCI ids has it.
    pub model: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// Its NUMA node, if the machine tells.
    pub numa_node: Option<u32>,
}

/// What lies between two PCI functions, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// The same card.
    Same,
    /// One PCIe switch (`PIX`).
    OneSwitch,
    /// Several PCIe switches, and no root (`PXB`).
    Switches,
    /// A root complex (`PHB`).
    HostBridge,
    /// Several root complexes of one NUMA node (`NODE`).
    NumaNode,
    /// The link between NUMA nodes (`SYS`).
    System,
    /// The machine does not tell.
    Unknown,
}

impl Distance {
    /// The word that `nvidia-smi topo` has for it.
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

/// Every GPU.
pub(crate) fn read_all(_tree: &crate::Tree) -> Vec<Gpu> {
    Vec::new()
}
