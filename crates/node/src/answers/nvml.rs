//! NVIDIA's GPUs as NVML tells them.

use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
}

/// Nothing, where there is no library or no driver. The library may take seconds to wake GPUs up, and cannot be
/// interrupted: a thread of its own asks, and is left alone if it takes too long.
pub(super) fn ask() -> Option<Nvml> {
    let (tell, told) = mpsc::channel();
    let asker = move || {
        let _ = tell.send(look());
    };
    std::thread::Builder::new().name("nvml".to_owned()).spawn(asker).ok()?;
    told.recv_timeout(PATIENCE).ok().flatten()
}

fn look() -> Option<Nvml> {
    // The name without a number is there only with the development files.
    let library = nvml_wrapper::Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init();
    let library = library.ok()?;
    let cuda = library.sys_cuda_driver_version().ok();
    let count = library.device_count().unwrap_or(0).min(MOST_GPUS);
    Some(Nvml {
        driver: library.sys_driver_version().ok(),
        cuda: cuda.map(|number| format!("{}.{}", number / 1000, number % 1000 / 10)),
        gpus: (0..count).map(|index| gpu(&library, index)).collect(),
    })
}

/// One that cannot be asked is there all the same.
fn gpu(library: &nvml_wrapper::Nvml, index: u32) -> NvmlGpu {
    let Ok(device) = library.device_by_index(index) else {
        return NvmlGpu { index, ..NvmlGpu::default() };
    };
    let links = (0..MOST_LINKS).map_while(|link| device.link_wrapper_for(link).is_active().ok());
    let links: Vec<bool> = links.collect();
    let up = links.iter().filter(|is_up| **is_up).count() as u32;
    NvmlGpu {
        index,
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        pci: device
            .pci_info()
            .ok()
            .map(|pci| format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device)),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        persistence: device.is_in_persistent_mode().ok(),
        nvlinks: (!links.is_empty()).then_some(up),
    }
}

/// Eight GPUs that nothing keeps awake take this long at worst.
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_GPUS: u32 = 256;
const MOST_LINKS: u32 = 64;
