//! NVIDIA's GPUs, from NVML.
//!
//! Its calls may take seconds, since idle GPUs have to wake up, and cannot be interrupted. So callers use a thread that
//! they can abandon.

mod links;
mod raw;
mod reading;

use std::sync::mpsc;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use super::GpuReading;
pub(crate) use raw::identity;

/// The driver and its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nvml {
    /// The kernel driver's version.
    pub driver: Option<String>,
    /// The CUDA version that the driver supports, `12.8`.
    pub cuda: Option<String>,
    /// In NVML's order.
    pub gpus: Vec<NvmlGpu>,
    /// The source of XID counts; `None` if they are not counted.
    pub xids_by: Option<XidSource>,
}

/// The source of XID counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XidSource {
    /// Events of NVML, for critical XIDs.
    Events,
    /// The kernel log.
    KernelLog,
}

/// One GPU. Unknown values are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlGpu {
    /// NVML's number.
    pub index: u32,
    /// `NVIDIA H200`.
    pub name: Option<String>,
    /// `GPU-…`.
    pub uuid: Option<String>,
    /// Its PCI address as in sysfs: `0000:1b:00.0`.
    pub pci: Option<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// Whether the driver stays loaded without clients (persistence mode).
    pub persistence: Option<bool>,
    /// The number of NVLinks that are up.
    pub nvlinks: Option<u32>,
    /// Its current values.
    pub reading: GpuReading,
}

/// `None` if there is no library or no driver, or it takes too long.
pub(super) fn query() -> Option<Nvml> {
    let (send, result) = mpsc::channel();
    let run = move || {
        let _ = send.send(start().and_then(|library| sample(&library)));
    };
    std::thread::Builder::new().name("nvml".to_owned()).spawn(run).ok()?;
    result.recv_timeout(TIMEOUT).ok()?.ok()
}

/// Loads the library and starts it, which wakes up every GPU.
pub(crate) fn start() -> Result<nvml_wrapper::Nvml, NvmlError> {
    // The name without a number exists only with the development files.
    nvml_wrapper::Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init()
}

/// Takes a sample of every GPU.
pub(crate) fn sample(library: &nvml_wrapper::Nvml) -> Result<Nvml, NvmlError> {
    let cuda = library.sys_cuda_driver_version().ok();
    let count = library.device_count()?.min(MAX_GPUS);
    Ok(Nvml {
        driver: library.sys_driver_version().ok(),
        cuda: cuda.map(|number| format!("{}.{}", number / 1000, number % 1000 / 10)),
        gpus: (0..count).map(|index| gpu(library, index)).collect(),
        xids_by: None,
    })
}

/// A GPU that cannot be queried is listed too.
fn gpu(library: &nvml_wrapper::Nvml, index: u32) -> NvmlGpu {
    let Ok(device) = library.device_by_index(index) else {
        return NvmlGpu { index, ..NvmlGpu::default() };
    };
    let reading = reading::read(&device);
    let up = reading.nvlinks.values().filter(|link| link.active == Some(true)).count() as u32;
    NvmlGpu {
        index,
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        pci: device
            .pci_info()
            .ok()
            .map(|pci| format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device)),
        memory_bytes: reading.memory_total_bytes,
        persistence: device.is_in_persistent_mode().ok(),
        nvlinks: (!reading.nvlinks.is_empty()).then_some(up),
        reading,
    }
}

/// Eight idle GPUs take this long in the worst case.
const TIMEOUT: Duration = Duration::from_secs(20);
/// No machine has more.
pub(crate) const MAX_GPUS: u32 = 256;
