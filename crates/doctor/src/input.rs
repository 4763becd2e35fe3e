//! The machine under examination, and queries that several checks share.

use std::collections::BTreeSet;

use node::{
    Address, Device, Function, Gpu, LinkLayer, NetDev, Node, NodeType, Port, Reading, Role, Tree,
};

use super::{Evidence, Libfabric, StoreDisk, rates};

/// A machine under examination.
#[derive(Debug, Clone, Copy)]
pub struct CheckInput<'n> {
    /// Its facts.
    pub node: &'n Node,
    /// The tree they were read from, for the evidence.
    pub tree: &'n Tree,
    /// What the user expects of it.
    pub expectations: Expectations,
    /// The state of libfabric, if this is the running machine and libfabric was queried.
    pub libfabric: Option<&'n Libfabric>,
    /// The disk of the store on this machine, if there is one.
    pub store_disk: Option<&'n StoreDisk>,
}

/// What the user expects; the default is nothing in particular.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Expectations {
    /// The rate that every active port should have, in Mb/s.
    pub expect_rate_mbps: Option<u64>,
}

impl Expectations {
    /// The rate that every active port should have, in Mb/s.
    pub fn expect_rate_mbps(mut self, mbps: Option<u64>) -> Expectations {
        self.expect_rate_mbps = mbps;
        self
    }
}

impl<'n> CheckInput<'n> {
    /// A machine of which nothing in particular is expected, without libfabric and store.
    pub fn new(node: &'n Node, tree: &'n Tree) -> Self {
        CheckInput {
            node,
            tree,
            expectations: Expectations::default(),
            libfabric: None,
            store_disk: None,
        }
    }

    /// The devices to check. In a container that was given devices, only those: it sees all devices of its host.
    pub(super) fn devices(&self) -> Vec<&'n Device> {
        let all = self.node.devices.iter();
        if self.node.host.container.is_none() || !all.clone().any(|device| self.is_given(device)) {
            return all.collect();
        }
        all.filter(|device| self.is_given(device)).collect()
    }

    /// Whether the device has a device node that programs can open.
    pub(super) fn is_given(&self, device: &Device) -> bool {
        let path = device.uverbs.as_ref().map(|name| format!("/dev/infiniband/{name}"));
        path.is_some_and(|path| {
            self.node
                .char_devices
                .iter()
                .any(|file| file.path == path && file.node.value().is_some())
        })
    }

    /// Ports of the devices to check.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&'n Device, &'n Port)> {
        self.devices()
            .into_iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }

    /// Active ports of the devices to check.
    pub fn active_ports(&self) -> impl Iterator<Item = (&'n Device, &'n Port)> {
        self.ports().filter(|(_, port)| port.is_active())
    }

    /// The current rate of a port in Mb/s, if it is known.
    pub fn rate_mbps(&self, device: &Device, port: &Port) -> Option<u64> {
        rates::current(self, device, port).map(|rate| rate.mbps)
    }

    /// Active RoCE ports of hardware devices.
    pub(super) fn roce_ports(&self) -> impl Iterator<Item = (&'n Device, &'n Port)> {
        self.active_ports().filter(|(device, port)| is_roce(device, port) && !is_software(device))
    }

    /// The net device of a port.
    pub(super) fn netdev(&self, port: &Port) -> Option<&'n NetDev> {
        port.netdev.as_deref().and_then(|name| self.node.netdev(name))
    }

    /// GPUs that compute and that this machine or container may use, without those that only drive a display.
    pub(super) fn gpus(&self) -> Vec<&'n Gpu> {
        let gpus = self.node.gpus.iter().filter(|gpu| self.computes(gpu));
        gpus.filter(|gpu| self.is_given_gpu(gpu)).collect()
    }

    /// A container sees every GPU of its host, and can use those whose device nodes it was given.
    fn is_given_gpu(&self, gpu: &Gpu) -> bool {
        if self.node.host.container.is_none() || gpu.vendor.as_deref() != Some("NVIDIA") {
            return true;
        }
        let information =
            self.tree.text(&format!("/proc/driver/nvidia/gpus/{}/information", gpu.pci));
        let minor = information.into_value().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())
        });
        // Without this file: the driver numbers GPUs in PCI order, as we do.
        let path = format!("/dev/nvidia{}", minor.unwrap_or(gpu.index));
        let mut nodes = self.node.char_devices.iter();
        nodes.any(|file| file.path == path && file.node.value().is_some())
    }

    /// By driver and class: graphics cards, and AMD's and Intel's GPUs within CPUs, are VGA controllers.
    fn computes(&self, gpu: &Gpu) -> bool {
        let Some(function) = self.function(gpu.pci) else { return false };
        let class = function.class.value().map(|class| class >> 8);
        match function.vendor.value() {
            Some(&NVIDIA) => gpu.driver.as_deref() == Some("nvidia"),
            Some(&AMD) => {
                matches!(class, Some(DISPLAY_OTHER | ACCELERATOR))
                    && gpu.driver.as_deref() == Some("amdgpu")
            }
            _ => class == Some(ACCELERATOR),
        }
    }

    /// Whether the device may be without link and address: a virtual function on a host, reserved for a pod or virtual
    /// machine.
    pub(super) fn may_be_idle(&self, device: &Device) -> bool {
        is_virtual(device) && self.node.host.container.is_none()
    }

    /// EFA devices to check: only libfabric drives them.
    pub(super) fn efa_devices(&self) -> Vec<&'n Device> {
        self.devices().into_iter().filter(|device| is_efa(device)).collect()
    }

    /// Whether all devices to check are EFA, which needs fewer kernel modules.
    pub(super) fn is_efa_only(&self) -> bool {
        let devices = self.devices();
        !devices.is_empty() && devices.iter().all(|device| is_efa(device))
    }

    /// The PCI function with this address.
    pub(crate) fn function(&self, address: Address) -> Option<&'n Function> {
        self.node.pci.get(&address)
    }

    /// Other devices of the same model.
    pub(super) fn same_model(&self, device: &Device) -> Vec<&'n Device> {
        let model = self.model(device);
        let others = self.devices().into_iter().filter(|other| other.name != device.name);
        others.filter(|other| model.is_some() && self.model(other) == model).collect()
    }

    /// The model: PCI vendor, PCI device and board ID. A virtual function differs from its NIC.
    pub(super) fn model(&self, device: &Device) -> Option<String> {
        let function = self.function(device.pci?)?;
        let (vendor, model) = (function.vendor.value()?, function.device.value()?);
        let board = device.board_id.value().map_or("", String::as_str);
        Some(format!("{vendor:04x}:{model:04x} {board}"))
    }

    /// Devices of the same NIC: with the same system image GUID, or in the same slot.
    pub(super) fn same_nic(&self, device: &Device) -> Vec<&'n Device> {
        let image = device.sys_image_guid.value().filter(|guid| !guid.is_zero());
        let slot = |device: &Device| device.pci.map(|pci| (pci.domain, pci.bus, pci.device));
        let others = self.node.devices.iter().filter(|other| other.name != device.name);
        let same = |other: &&Device| {
            (image.is_some() && other.sys_image_guid.value() == image)
                || (slot(device).is_some() && slot(other) == slot(device))
        };
        others.filter(same).collect()
    }

    /// A file and its value as evidence.
    pub(super) fn file(&self, path: impl Into<String>) -> Evidence {
        let path = path.into();
        let seen = self.tree.text(&path);
        let value = match &seen {
            Reading::Value(text) => text.clone(),
            other => other.why_not().unwrap_or_default(),
        };
        Evidence::new(path, value)
    }

    /// A file of a port as evidence.
    pub(super) fn port_file(&self, device: &Device, port: &Port, name: &str) -> Evidence {
        self.file(format!("{}/ports/{}/{name}", device.folder(), port.number))
    }

    /// Hours since the machine started.
    pub(super) fn hours_up(&self) -> Option<f64> {
        self.node
            .host
            .uptime_s
            .filter(|seconds| *seconds > 0)
            .map(|seconds| seconds as f64 / 3600.0)
    }

    /// Whether the machine has GPUs and RDMA NICs, so that GPUDirect is possible.
    pub(super) fn moves_gpu_memory(&self) -> bool {
        !self.gpus().is_empty() && self.devices().iter().any(|device| device.pci.is_some())
    }

    /// The PCI functions of the devices to check, of the GPUs, and of all bridges above them, without duplicates.
    pub(super) fn functions_with_bridges(&self) -> Vec<&'n Function> {
        let ends = self.devices().into_iter().filter_map(|device| device.pci);
        let ends: Vec<Address> = ends.chain(self.gpus().into_iter().map(|gpu| gpu.pci)).collect();
        let above =
            ends.iter().filter_map(|end| self.function(*end)).flat_map(|end| end.above.iter());
        let all: BTreeSet<Address> = ends.iter().chain(above).copied().collect();
        all.into_iter().filter_map(|address| self.function(address)).collect()
    }
}

/// The name of a port: `mlx5_0 port 1`.
pub(crate) fn port_name(device: &Device, port: &Port) -> String {
    format!("{} port {}", device.name, port.number)
}

/// Whether the port is RoCE: RDMA over Ethernet, but not iWARP.
pub fn is_roce(device: &Device, port: &Port) -> bool {
    port.link_layer == Reading::Value(LinkLayer::Ethernet)
        && device.node_type != Reading::Value(NodeType::Rnic)
}

/// Whether the device is software: rxe, siw.
pub(crate) fn is_software(device: &Device) -> bool {
    device.role == Role::Software
}

fn is_efa(device: &Device) -> bool {
    device.driver.as_deref() == Some("efa")
}

/// Whether the device is a virtual function.
pub(super) fn is_virtual(device: &Device) -> bool {
    matches!(device.role, Role::Virtual { .. })
}

/// Whether the driver refuses all counters of the port: the function belongs to another manager.
pub(super) fn is_restricted(port: &Port) -> bool {
    let mut counters = port.counters.iter();
    counters.clone().any(|counter| matches!(counter.value, Reading::Refused(_)))
        && !counters.any(|counter| counter.value.value().is_some())
}

/// Formats a rate: `100 Gb/s`.
pub fn gbps(mbps: u64) -> String {
    format!("{} Gb/s", mbps as f64 / 1000.0)
}

/// Formats a count: `1 time`, `2 times`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;
/// Classes of PCI functions, without the programming interface.
const DISPLAY_OTHER: u32 = 0x0380;
const ACCELERATOR: u32 = 0x1200;
