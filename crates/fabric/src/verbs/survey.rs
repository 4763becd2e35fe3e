//! Whether RDMA can be used here, by what, and if not, why.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rdma_sys::{Errno, LoadError, Verbs};

use super::context::DeviceList;
use super::device::Device;

/// Every device of this machine, each with its facts or the reason it could not be asked.
#[derive(Debug)]
pub struct Survey {
    /// In the order libibverbs lists them.
    pub devices: Vec<Device>,
}

/// Loads `library` and asks every device. One bad device never hides the others.
pub fn survey(library: &Path) -> Result<Survey, Unavailable> {
    let list = list(library)?;
    let devices: Vec<Device> = list.iter().map(|listed| Device::ask(&listed)).collect();
    if devices.is_empty() { Err(Unavailable::NoDevice) } else { Ok(Survey { devices }) }
}

/// The devices, not yet asked.
pub(super) fn list(library: &Path) -> Result<DeviceList, Unavailable> {
    let verbs = Verbs::load(library).map_err(Unavailable::Library)?;
    DeviceList::new(Arc::new(verbs)).map_err(Unavailable::from_list_error)
}

impl Survey {
    /// The devices that can carry data now: opened, and with an active port.
    pub fn usable(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.usable().is_ok())
    }

    /// Why RDMA cannot be used although there are devices; `None` if it can.
    pub fn obstacle(&self) -> Option<Unavailable> {
        if self.usable().next().is_some() {
            return None;
        }
        let each = self.devices.iter().filter_map(|device| {
            device.usable().err().map(|reason| format!("{}: {reason}", device.name))
        });
        Some(Unavailable::NoneUsable(each.collect::<Vec<_>>().join("; ")))
    }
}

/// Why RDMA is off. An ordinary answer with a fix, not a failure.
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
    /// There are devices, but none can carry data; the text names each with its reason.
    NoneUsable(String),
}

impl Unavailable {
    fn from_list_error(errno: Errno) -> Self {
        // libibverbs answers ENOSYS when /sys/class/infiniband_verbs is not there.
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

    /// What the reader can do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => {
                "install it (Debian: `apt install ibverbs-providers`, RHEL: `dnf install \
                 libibverbs`), or name the file in WIRELANE_LIBIBVERBS"
            }
            Unavailable::Library(LoadError::Symbol { .. }) => {
                "install rdma-core 15 or newer, or name another file in WIRELANE_LIBIBVERBS"
            }
            Unavailable::NoKernelSupport => {
                "load the NIC's RDMA driver (for example `modprobe mlx5_ib`), or make a soft-RoCE \
                 device: `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV`"
            }
            Unavailable::List(_) => "check that /sys and /dev/infiniband are there and readable",
            Unavailable::NoDevice => {
                "check that an RDMA NIC is present and its driver loaded; in a pod, that a device \
                 was requested"
            }
            Unavailable::NoneUsable(_) => {
                "`wirelane devices` shows each; bring a port up, or give access to /dev/infiniband"
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
            Unavailable::NoneUsable(each) => write!(f, "no device can carry data: {each}"),
        }
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_library_is_said_by_name_with_a_fix() {
        let off = survey(Path::new("/nowhere/libibverbs.so.1")).unwrap_err();
        assert_eq!(off.kind(), "no_library");
        assert!(off.to_string().contains("/nowhere/libibverbs.so.1"), "{off}");
        assert!(off.fix().contains("apt install"));
    }

    #[test]
    fn a_library_without_verbs_is_said_by_its_missing_symbol() {
        let off = survey(Path::new("libc.so.6")).unwrap_err();
        assert_eq!(off.kind(), "no_symbol");
        assert!(off.to_string().contains("ibv_get_device_list@IBVERBS_1.1"), "{off}");
    }
}
