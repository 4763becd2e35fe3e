//! The devices that the platform reports as assigned to this pod. They are checked later.
//!
//! There are three sources: the SR-IOV device plugin and the DRA driver set variables, Multus writes a file. The shared
//! device plugin, EFA's and a plain host report nothing; then none is assigned, and all usable devices are selected.

mod dra;
mod multus;
mod plugin;

use std::collections::BTreeMap;
use std::fmt;

use node::{Address, Tree};

/// A device that was assigned to this pod, as reported by the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssignedDevice {
    /// The function.
    pub(super) id: DeviceId,
    /// The reported RDMA device.
    pub(super) rdma_device: Option<String>,
    /// The reported device node: `uverbs4`.
    pub(super) uverbs: Option<String>,
    /// Whether RDMA was assigned; functions without RDMA are in the same variables.
    pub(super) expects_rdma: bool,
    /// Whether it was assigned to a user-space driver, so that the kernel has no RDMA device for it.
    pub(super) is_vfio: bool,
    /// The variable or file that reports it.
    pub(super) source: String,
}

/// The ID of a function: its PCI address, or for a subfunction its auxiliary device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeviceId {
    Pci(Address),
    Auxiliary(String),
}

/// All assigned devices, with warnings and errors.
#[derive(Debug, Default)]
pub(super) struct AssignedDevices {
    pub(super) devices: Vec<AssignedDevice>,
    /// Problems that were worked around with another source.
    pub(super) warnings: Vec<String>,
    /// Problems for which the plan is refused.
    pub(super) errors: Vec<String>,
}

/// All assigned devices of the environment and of Multus's file.
pub(super) fn gather(environment: &BTreeMap<String, String>, tree: &Tree) -> AssignedDevices {
    let mut assigned_devices = AssignedDevices::default();
    plugin::gather(environment, &mut assigned_devices);
    dra::gather(environment, &mut assigned_devices);
    multus::gather(tree, &mut assigned_devices);
    assigned_devices
}

impl AssignedDevices {
    /// Adds a device, or merges it with what another source reports on the same function. A difference is an error.
    fn add(&mut self, assigned_device: AssignedDevice) {
        let Some(known) = self.devices.iter_mut().find(|known| known.id == assigned_device.id)
        else {
            if self.devices.len() < MAX_DEVICES {
                self.devices.push(assigned_device);
            } else if self.devices.len() == MAX_DEVICES {
                self.errors.push(format!(
                    "{}: more than {MAX_DEVICES} devices are assigned",
                    assigned_device.source
                ));
            }
            return;
        };
        let pairs = [
            ("RDMA device", &known.rdma_device, &assigned_device.rdma_device),
            ("device node", &known.uverbs, &assigned_device.uverbs),
        ];
        for (what, one, other) in pairs {
            if let (Some(one), Some(other)) = (one, other)
                && one != other
            {
                self.errors.push(format!(
                    "{}: its {what} is {one} in {}, but {other} in {}",
                    assigned_device.id, known.source, assigned_device.source
                ));
                return;
            }
        }
        known.rdma_device = known.rdma_device.take().or(assigned_device.rdma_device);
        known.uverbs = known.uverbs.take().or(assigned_device.uverbs);
        known.expects_rdma |= assigned_device.expects_rdma;
        known.is_vfio |= assigned_device.is_vfio;
    }
}

impl AssignedDevice {
    fn new(id: DeviceId, source: &str) -> Self {
        AssignedDevice {
            id,
            rdma_device: None,
            uverbs: None,
            expects_rdma: false,
            is_vfio: false,
            source: source.to_owned(),
        }
    }

    /// Adds the reported RDMA device; an empty string is none. Invalid names are refused,
    /// with a reason that follows the source's name.
    fn with_rdma(mut self, device: Option<String>, uverbs: Option<String>) -> Result<Self, String> {
        let is_set = |text: &String| !text.trim().is_empty();
        let (device, uverbs) = (device.filter(is_set), uverbs.filter(is_set));
        if let Some(name) = device.as_deref().filter(|name| !is_device_name(name)) {
            return Err(format!("names an RDMA device {}", quoted(name)));
        }
        let named = |path: String| {
            node_name(&path).ok_or_else(|| format!("names a device node {}", quoted(&path)))
        };
        let uverbs = uverbs.map(named).transpose()?;
        self.expects_rdma |= device.is_some() || uverbs.is_some();
        self.rdma_device = device;
        self.uverbs = uverbs;
        Ok(self)
    }
}

impl DeviceId {
    /// Parses `0000:3b:02.6` or `mlx5_core.sf.4`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(address) = Address::parse(text) {
            return Some(DeviceId::Pci(address));
        }
        // `driver.kind.number`, as the kernel's auxiliary bus names them.
        let parts: Vec<&str> = text.split('.').collect();
        let word = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let [driver, kind, number] = parts.as_slice() else { return None };
        let good = text.len() <= MAX_NAME_BYTES
            && word(driver)
            && word(kind)
            && number.parse::<u32>().is_ok();
        good.then(|| DeviceId::Auxiliary(text.to_owned()))
    }

    /// Its folder in /sys.
    pub(super) fn folder(&self) -> String {
        match self {
            DeviceId::Pci(address) => address.folder(),
            DeviceId::Auxiliary(name) => format!("/sys/bus/auxiliary/devices/{name}"),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Pci(address) => address.fmt(f),
            DeviceId::Auxiliary(name) => f.write_str(name),
        }
    }
}

/// Whether it can be in NCCL's and UCX's lists, which separate names by commas and colons.
pub(super) fn is_device_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(plain)
}

/// Untrusted text for a message: truncated, quoted, control characters escaped.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// `uverbs4` from `/dev/infiniband/uverbs4`.
fn node_name(path: &str) -> Option<String> {
    let name = path.strip_prefix("/dev/infiniband/")?;
    let number = name.strip_prefix("uverbs")?;
    number.parse::<u32>().ok().map(|_| name.to_owned())
}

/// More than any pod has.
const MAX_DEVICES: usize = 256;
/// IB_DEVICE_NAME_MAX.
const MAX_NAME_BYTES: usize = 64;
