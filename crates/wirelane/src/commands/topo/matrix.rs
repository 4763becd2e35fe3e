//! GPUs, RDMA devices, and the distances between them.

use std::collections::BTreeMap;

use doctor::topo::{Assignment, assign};
use node::{Address, Device, Distance, LinkLayer, Node, Port};
use serde::Serialize;

/// The topology of a machine.
#[derive(Debug, Serialize)]
pub(crate) struct Matrix {
    /// The machine's name, if known.
    pub(crate) host: Option<String>,
    /// The CPUs of each NUMA node.
    pub(crate) numa_nodes: BTreeMap<u32, String>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) nics: Vec<Nic>,
    /// The distance of each GPU to each NIC, as in `nvidia-smi topo`.
    pub(crate) distances: Vec<Vec<Distance>>,
    pub(crate) assignment: Vec<Assignment>,
}

/// A GPU and its slot.
#[derive(Debug, Serialize)]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) model: Option<String>,
    #[serde(flatten)]
    pub(crate) slot: Slot,
}

/// An RDMA device and its slot. Software devices have none, and are not listed.
#[derive(Debug, Serialize)]
pub(crate) struct Nic {
    pub(crate) device: String,
    pub(crate) model: Option<String>,
    /// The first active port, else the first.
    pub(crate) port: Option<u32>,
    pub(crate) active: bool,
    pub(crate) rate_gbps: Option<f64>,
    pub(crate) link_layer: Option<&'static str>,
    pub(crate) netdev: Option<String>,
    #[serde(flatten)]
    pub(crate) slot: Slot,
}

/// A PCIe slot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Slot {
    pub(crate) pci: Address,
    pub(crate) numa_node: Option<u32>,
    pub(crate) host_bridge: Option<String>,
    /// The bandwidth of its PCIe link, current and maximum.
    pub(crate) pcie_gbps: Option<f64>,
    pub(crate) pcie_max_gbps: Option<f64>,
}

impl Matrix {
    pub(crate) fn new(node: &Node) -> Self {
        let gpus: Vec<Gpu> = node.gpus.iter().map(|gpu| new_gpu(node, gpu)).collect();
        let mut nics: Vec<Nic> =
            node.devices.iter().filter_map(|device| new_nic(node, device)).collect();
        nics.sort_by_key(|nic| nic.slot.pci);
        let row =
            |gpu: &Gpu| nics.iter().map(|nic| node.distance(gpu.slot.pci, nic.slot.pci)).collect();
        let cpus = node.host.numa_nodes.iter();
        Matrix {
            host: node.host.name.value().cloned(),
            numa_nodes: cpus
                .map(|numa| (numa.number, numa.cpus.value().cloned().unwrap_or_default()))
                .collect(),
            distances: gpus.iter().map(row).collect(),
            assignment: assign(node),
            gpus,
            nics,
        }
    }

    /// The device of a GPU, as an index of the list.
    pub(crate) fn nic_of(&self, gpu: u32) -> Option<(usize, Distance)> {
        let assigned = self.assignment.iter().find(|assigned| assigned.gpu == gpu)?;
        let at = self.nics.iter().position(|nic| nic.device == assigned.device)?;
        Some((at, assigned.distance))
    }
}

fn new_gpu(node: &Node, gpu: &node::Gpu) -> Gpu {
    let model = gpu.model.clone();
    Gpu { index: gpu.index, model, slot: slot(node, gpu.pci) }
}

fn new_nic(node: &Node, device: &Device) -> Option<Nic> {
    let pci = device.pci?;
    let port = device.ports.iter().find(|port| port.is_active()).or_else(|| device.ports.first());
    let function = node.pci.get(&pci);
    Some(Nic {
        device: device.name.clone(),
        model: function.and_then(|function| function.product_name.clone()),
        port: port.map(|port| port.number),
        active: port.is_some_and(Port::is_active),
        rate_gbps: port.and_then(|port| Some(port.rate.value()?.gbps())),
        link_layer: port.and_then(link_layer),
        netdev: port.and_then(|port| port.netdev.clone()),
        slot: slot(node, pci),
    })
}

fn link_layer(port: &Port) -> Option<&'static str> {
    let layer = port.link_layer.value().filter(|layer| **layer != LinkLayer::Unknown);
    layer.map(|layer| layer.name())
}

fn slot(node: &Node, pci: Address) -> Slot {
    let function = node.pci.get(&pci);
    let (now, max) = function.map_or((None, None), |function| function.link.gbps());
    let rounded = |gbps: Option<f64>| gbps.map(f64::round);
    Slot {
        pci,
        numa_node: function.and_then(|function| function.numa_node),
        host_bridge: function.and_then(|function| function.host_bridge.clone()),
        pcie_gbps: rounded(now),
        pcie_max_gbps: rounded(max),
    }
}
