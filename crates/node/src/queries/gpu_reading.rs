//! Current values of a GPU.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A sample of a GPU, from NVML. Unknown values are left out, never zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuReading {
    /// Of the chip, in °C.
    pub temperature_c: Option<u32>,
    /// Of its memory, in °C.
    pub memory_temperature_c: Option<u32>,
    /// Where it throttles, in °C.
    pub slowdown_temperature_c: Option<u32>,
    /// The part of the sample period in which a kernel ran, in percent.
    pub utilization_percent: Option<u32>,
    /// The part of the sample period in which its memory was read or written, in percent.
    pub memory_utilization_percent: Option<u32>,
    /// Bytes of memory in use, without memory reserved by the driver.
    pub memory_used_bytes: Option<u64>,
    /// Bytes of free memory.
    pub memory_free_bytes: Option<u64>,
    /// Bytes of memory.
    pub memory_total_bytes: Option<u64>,
    /// Power draw, in milliwatts.
    pub power_mw: Option<u64>,
    /// Power limit, in milliwatts.
    pub power_limit_mw: Option<u64>,
    /// Energy since its driver was loaded, in millijoules.
    pub energy_mj: Option<u64>,
    /// Clocks in MHz by name: `graphics`, `sm`, `memory`, `video`.
    pub clocks_mhz: BTreeMap<String, u32>,
    /// The highest clocks in MHz by the same names.
    pub max_clocks_mhz: BTreeMap<String, u32>,
    /// Every throttle reason that this GPU supports, and whether it is active: `sw_power_cap`, `hw_slowdown`.
    pub throttle: BTreeMap<String, bool>,
    /// The number of reports of each XID since the watch started.
    pub xids: BTreeMap<u64, u64>,
    /// PCIe receive rate, in bytes per second over 20 ms.
    pub pcie_receive_bytes_per_second: Option<u64>,
    /// PCIe transmit rate, in bytes per second over 20 ms.
    pub pcie_transmit_bytes_per_second: Option<u64>,
    /// PCIe packets that were retransmitted.
    pub pcie_replays: Option<u64>,
    /// The current PCIe generation.
    pub pcie_generation: Option<u32>,
    /// The current number of PCIe lanes.
    pub pcie_width: Option<u32>,
    /// NVLinks by number.
    pub nvlinks: BTreeMap<u32, NvLink>,
    /// Memory errors since the driver was loaded: corrected, uncorrected.
    pub ecc_volatile: BTreeMap<String, u64>,
    /// Memory errors over its lifetime: corrected, uncorrected.
    pub ecc_aggregate: BTreeMap<String, u64>,
    /// Remapped memory rows, by cause: `correctable`, `uncorrectable`.
    pub remapped_rows: BTreeMap<String, u64>,
    /// Whether rows are remapped at the next reset.
    pub remap_pending: Option<bool>,
    /// Whether remapping a row failed.
    pub remap_failed: Option<bool>,
    /// Fan speeds in percent of their maximum; empty for cards without fans.
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
