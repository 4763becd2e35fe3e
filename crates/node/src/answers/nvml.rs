//! NVIDIA's GPUs as NVML tells them.

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

pub(super) fn ask() -> Option<Nvml> {
    None
}
