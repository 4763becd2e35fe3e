//! Lists the RDMA devices of this machine, or the reason why RDMA is unavailable.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rdma_sys::{Errno, LoadError, Verbs};

use super::context::{DeviceList, ListedDevice};
use super::device::Device;
use super::query_threads::{Query, query_all};

/// Every RDMA device of this machine, each with its attributes or the reason why it could not be queried.
#[derive(Debug)]
pub struct QueriedDevices {
    /// In the order libibverbs lists them.
    pub devices: Vec<Device>,
}

/// Loads `library` and queries every device. A device that cannot be queried, or does not answer within three seconds, does not affect
/// the others.
pub fn list_devices(library: &Path) -> Result<QueriedDevices, Unavailable> {
    let list = Arc::new(list(library)?);
    let query = |(index, listed): (usize, ListedDevice<'_>)| {
        let list = list.clone();
        let run = Box::new(move || list.iter().nth(index).map(|listed| Device::query(&listed)));
        Query { device: format!("{} {}", library.display(), listed.name()), run }
    };
    let answers = query_all(list.iter().enumerate().map(query).collect(), QUERY_TIMEOUT);
    let devices: Vec<Device> = list
        .iter()
        .zip(answers)
        .map(|(listed, answer)| {
            answer.flatten().unwrap_or_else(|| Device::silent(&listed, QUERY_TIMEOUT))
        })
        .collect();
    if devices.is_empty() { Err(Unavailable::NoDevice) } else { Ok(QueriedDevices { devices }) }
}

/// How long a device may take to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// The devices, not yet queried.
pub(super) fn list(library: &Path) -> Result<DeviceList, Unavailable> {
    let verbs = Verbs::load(library).map_err(Unavailable::Library)?;
    DeviceList::new(Arc::new(verbs)).map_err(Unavailable::from_list_error)
}

impl QueriedDevices {
    /// The devices that can transfer data now: accessible, and with an active port.
    pub fn usable(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.usable().is_ok())
    }

    /// Why RDMA is unavailable although there are devices; `None` if it is available.
    pub fn unavailable(&self) -> Option<Unavailable> {
        if self.usable().next().is_some() {
            return None;
        }
        let each = self.devices.iter().filter_map(|device| {
            device.usable().err().map(|reason| format!("{}: {reason}", device.name))
        });
        Some(Unavailable::NoneUsable(each.collect::<Vec<_>>().join("; ")))
    }
}

/// Why RDMA is unavailable, with a fix. An expected state, not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// libibverbs is not installed, cannot be loaded, or is too old.
    Library(LoadError),
    /// The kernel has no RDMA subsystem loaded.
    NoKernelSupport,
    /// libibverbs could not list devices.
    List(Errno),
    /// There is no RDMA device.
    NoDevice,
    /// There are devices, but none can transfer data; the text has each device with its reason.
    NoneUsable(String),
}

impl Unavailable {
    fn from_list_error(errno: Errno) -> Self {
        // libibverbs returns ENOSYS if /sys/class/infiniband_verbs does not exist.
        const ENOSYS: i32 = 38;
        if errno.0 == ENOSYS { Unavailable::NoKernelSupport } else { Unavailable::List(errno) }
    }

    /// One word for scripts and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => "no_library",
            Unavailable::Library(LoadError::Symbol { .. }) => "no_symbol",
            Unavailable::NoKernelSupport => "no_kernel_support",
            Unavailable::List(_) => "list_failed",
            Unavailable::NoDevice => "no_device",
            Unavailable::NoneUsable(_) => "none_usable",
        }
    }

    /// What the user can do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => {
                "install it (Debian: `apt install ibverbs-providers`, RHEL: `dnf install \
                 libibverbs`), or set WIRELANE_LIBIBVERBS to its file"
            }
            Unavailable::Library(LoadError::Symbol { .. }) => {
                "install rdma-core 15 or newer, or set WIRELANE_LIBIBVERBS to another file"
            }
            Unavailable::NoKernelSupport => {
                "load the NIC's RDMA driver (for example `modprobe mlx5_ib`), or create a soft-RoCE \
                 device: `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV`"
            }
            Unavailable::List(_) => "check that /sys and /dev/infiniband exist and are readable",
            Unavailable::NoDevice => {
                "check that an RDMA NIC is present and its driver loaded; in a pod, that a device \
                 was requested"
            }
            Unavailable::NoneUsable(_) => {
                "run `wirelane devices`; bring a port up, or give access to /dev/infiniband"
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Library(error) => error.fmt(f),
            Unavailable::NoKernelSupport => f.write_str(
                "the kernel has no RDMA support loaded (no /sys/class/infiniband_verbs)",
            ),
            Unavailable::List(errno) => write!(f, "libibverbs cannot list devices: {errno}"),
            Unavailable::NoDevice => f.write_str("this machine has no RDMA device"),
            Unavailable::NoneUsable(each) => write!(f, "no usable RDMA device: {each}"),
        }
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_absent_library_has_its_path_and_a_fix() {
        let off = list_devices(Path::new("/nowhere/libibverbs.so.1")).unwrap_err();
        assert_eq!(off.kind(), "no_library");
        assert!(off.to_string().contains("/nowhere/libibverbs.so.1"), "{off}");
        assert!(off.fix().contains("apt install"));
    }

    #[test]
    fn the_error_for_another_library_has_the_missing_symbol() {
        let off = list_devices(Path::new("libc.so.6")).unwrap_err();
        assert_eq!(off.kind(), "no_symbol");
        assert!(off.to_string().contains("ibv_get_device_list@IBVERBS_1.1"), "{off}");
    }
}
