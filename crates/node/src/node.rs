//! Everything about one host.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Address, CharDevice, Device, Function, Gpu, GpuDirect, Host, Iommu, Module, NetDev, Process,
    Tree,
};
use crate::{device, gpu, host, netdev, pci, process, system};

/// One host.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// The machine itself.
    pub host: Host,
    /// RDMA devices, in the order of their names.
    pub devices: Vec<Device>,
    /// Net devices.
    pub netdevs: Vec<NetDev>,
    /// GPUs, in the order of their PCI addresses.
    pub gpus: Vec<Gpu>,
    /// The PCI functions of all these, of EFA devices without a driver, and the bridges above them.
    pub pci: BTreeMap<Address, Function>,
    /// The IOMMU.
    pub iommu: Iommu,
    /// Kernel modules that are relevant for RDMA.
    pub modules: Vec<Module>,
    /// Device nodes that programs open.
    pub char_devices: Vec<CharDevice>,
    /// How RDMA devices can access GPU memory.
    pub gpu_direct: GpuDirect,
    /// What this process may do.
    pub process: Process,
}

impl Node {
    /// Reads everything, each file once.
    pub fn read(tree: &Tree) -> Node {
        let netdevs = netdev::read_all(tree);
        let devices = device::read_all(tree, &netdevs);
        let gpus = gpu::read_all(tree);
        let plugged: Vec<Address> = (devices.iter().filter_map(|device| device.pci))
            .chain(netdevs.iter().filter_map(|netdev| netdev.pci))
            .chain(gpus.iter().map(|gpu| gpu.pci))
            .chain(pci::find_efa(tree))
            .collect();
        Node {
            host: host::read(tree),
            pci: pci::read_with_hops(tree, &plugged),
            iommu: system::read_iommu(tree),
            modules: system::read_modules(tree),
            char_devices: system::read_char_devices(tree),
            gpu_direct: system::read_gpu_direct(tree),
            process: process::read(tree),
            devices,
            netdevs,
            gpus,
        }
    }

    /// The RDMA device with this name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The net device with this name.
    pub fn netdev(&self, name: &str) -> Option<&NetDev> {
        self.netdevs.iter().find(|netdev| netdev.name == name)
    }
}
