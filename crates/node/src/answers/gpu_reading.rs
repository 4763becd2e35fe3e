//! What a GPU does at the moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One look at a GPU, by NVML. What it does not tell is left out, never zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuReading {
    /// Of the chip, in °C.
    pub temperature_c: Option<u32>,
    /// Of its memory, in °C.
    pub memory_temperature_c: Option<u32>,
    /// Where it slows itself down, in °C.
    pub slowdown_temperature_c: Option<u32>,
    /// How much of the last moment a kernel ran, in percent.
    pub utilization_percent: Option<u32>,
    /// How much of the last moment its memory was read or written, in percent.
    pub memory_utilization_percent: Option<u32>,
    /// Bytes of memory in use, without what the driver keeps for itself.
    pub memory_used_bytes: Option<u64>,
    /// Bytes of memory that are free.
    pub memory_free_bytes: Option<u64>,
    /// Bytes of memory.
    pub memory_total_bytes: Option<u64>,
    /// What it draws, in milliwatts.
    pub power_mw: Option<u64>,
    /// What it may draw, in milliwatts.
    pub power_limit_mw: Option<u64>,
    /// What it has drawn since its driver was loaded, in millijoules.
    pub energy_mj: Option<u64>,
    /// Clocks in MHz by name: `graphics`, `sm`, `memory`, `video`.
    pub clocks_mhz: BTreeMap<String, u32>,
    /// The highest clocks in MHz by the same names.
    pub max_clocks_mhz: BTreeMap<String, u32>,
    /// Every reason for a lower clock that this GPU knows, and whether it holds now: `sw_power_cap`, `hw_slowdown`.
    pub throttle: BTreeMap<String, bool>,
    /// How often each XID was reported since the watch began, by its number.
    pub xids: BTreeMap<u64, u64>,
    /// What comes in by PCIe, in bytes a second over 20 ms.
    pub pcie_receive_bytes_per_second: Option<u64>,
    /// What goes out by PCIe, in bytes a second over 20 ms.
    pub pcie_transmit_bytes_per_second: Option<u64>,
    /// PCIe packets that were sent again.
    pub pcie_replays: Option<u64>,
    /// PCIe's generation now.
    pub pcie_generation: Option<u32>,
    /// PCIe's lanes now.
    pub pcie_width: Option<u32>,
    /// NVLinks by number.
    pub nvlinks: BTreeMap<u32, NvLink>,
    /// Errors of memory since the driver was loaded: corrected, uncorrected.
    pub ecc_volatile: BTreeMap<String, u64>,
    /// Errors of memory in its life: corrected, uncorrected.
    pub ecc_aggregate: BTreeMap<String, u64>,
    /// Rows of memory that were replaced, by cause: `correctable`, `uncorrectable`.
    pub remapped_rows: BTreeMap<String, u64>,
    /// Whether rows wait for a reset to be replaced.
    pub remap_pending: Option<bool>,
    /// Whether replacing a row has failed.
    pub remap_failed: Option<bool>,
    /// Fans in percent of their most; cards without fans have none.
    pub fans_percent: Vec<u32>,
    /// 0 is the fastest.
    pub performance_state: Option<u32>,
    /// Processes that compute on it.
    pub compute_processes: Option<u32>,
}

/// One NVLink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLink {
    /// Whether it is up.
    pub active: Option<bool>,
    /// Bytes of data received.
    pub receive_bytes: Option<u64>,
    /// Bytes of data sent.
    pub transmit_bytes: Option<u64>,
    /// Errors by kind: `crc_flit`, `crc_data`, `replay`, `recovery`.
    pub errors: BTreeMap<String, u64>,
}
