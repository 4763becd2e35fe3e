//! NVIDIA's GPUs, by NVML.
//!
//! Its calls may take seconds, since GPUs that nobody uses have to wake up, and cannot be interrupted. So whoever asks does
//! it on a thread that may be left alone.

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
    /// The CUDA version that the driver serves, `12.8`.
    pub cuda: Option<String>,
    /// In NVML's order.
    pub gpus: Vec<NvmlGpu>,
    /// Who counts XIDs; nobody, where they are not watched or cannot be.
    pub xids_by: Option<XidsBy>,
}

/// Who tells of XIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XidsBy {
    /// NVML, as they happen: those that it calls critical.
    Events,
    /// The kernel's log.
    KernelLog,
}

/// One GPU. What it does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlGpu {
    /// NVML's number.
    pub index: u32,
    /// `NVIDIA H200`.
    pub name: Option<String>,
    /// `GPU-…`.
    pub uuid: Option<String>,
    /// Where it is, as sysfs writes it: `0000:1b:00.0`.
    pub pci: Option<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// Whether the driver stays loaded with nobody there.
    pub persistence: Option<bool>,
    /// How many NVLinks are up.
    pub nvlinks: Option<u32>,
    /// What it does at the moment.
    pub reading: GpuReading,
}

/// Nothing, where there is no library or no driver, or it takes too long.
pub(super) fn ask() -> Option<Nvml> {
    let (tell, told) = mpsc::channel();
    let socket = move || {
        let _ = tell.send(start().and_then(|library| look(&library)));
    };
    std::thread::Builder::new().name("nvml".to_owned()).spawn(socket).ok()?;
    told.recv_timeout(PATIENCE).ok()?.ok()
}

/// Loads the library and starts it, which wakes up every GPU.
pub(crate) fn start() -> Result<nvml_wrapper::Nvml, NvmlError> {
    // The name without a number is there only with the development files.
    nvml_wrapper::Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init()
}

/// One look at every GPU.
pub(crate) fn look(library: &nvml_wrapper::Nvml) -> Result<Nvml, NvmlError> {
    let cuda = library.sys_cuda_driver_version().ok();
    let count = library.device_count()?.min(MAX_GPUS);
    Ok(Nvml {
        driver: library.sys_driver_version().ok(),
        cuda: cuda.map(|number| format!("{}.{}", number / 1000, number % 1000 / 10)),
        gpus: (0..count).map(|index| gpu(library, index)).collect(),
        xids_by: None,
    })
}

/// One that cannot be asked is there all the same.
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

/// Eight GPUs that nothing keeps awake take this long at worst.
const PATIENCE: Duration = Duration::from_secs(20);
/// No machine has more.
pub(crate) const MAX_GPUS: u32 = 256;
