//! Reads the current values of a GPU from NVML.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, PerformanceState, TemperatureSensor,
    TemperatureThreshold,
};
use nvml_wrapper::sys_exports::field_id;

use super::{links, raw};
use crate::queries::GpuReading;

/// Reads all values. It takes 40 ms, in which PCIe traffic is measured.
pub(super) fn read(device: &Device<'_>) -> GpuReading {
    let memory = device.memory_info().ok();
    let memory = memory.as_ref();
    let utilization = device.utilization_rates().ok();
    let [memory_temperature, corrected, uncorrected, pending, failed] =
        raw::fields(device, NO_LINK, FIELDS);
    let rows = [("correctable", corrected), ("uncorrectable", uncorrected)];
    GpuReading {
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        // A GPU without this sensor reports 0 °C.
        memory_temperature_c: memory_temperature
            .and_then(|celsius| u32::try_from(celsius).ok())
            .filter(|celsius| *celsius > 0),
        slowdown_temperature_c: device.temperature_threshold(TemperatureThreshold::Slowdown).ok(),
        utilization_percent: utilization.as_ref().map(|part| part.gpu),
        memory_utilization_percent: utilization.as_ref().map(|part| part.memory),
        memory_used_bytes: memory.map(|memory| memory.used),
        memory_free_bytes: memory.map(|memory| memory.free),
        memory_total_bytes: memory.map(|memory| memory.total),
        power_mw: device.power_usage().ok().map(u64::from),
        power_limit_mw: device.enforced_power_limit().ok().map(u64::from),
        energy_mj: device.total_energy_consumption().ok(),
        clocks_mhz: clocks(|clock| device.clock_info(clock).ok()),
        max_clocks_mhz: clocks(|clock| device.max_clock_info(clock).ok()),
        throttle: throttle(device),
        xids: BTreeMap::new(),
        pcie_receive_bytes_per_second: pcie(device, PcieUtilCounter::Receive),
        pcie_transmit_bytes_per_second: pcie(device, PcieUtilCounter::Send),
        pcie_replays: device.pcie_replay_counter().ok().map(u64::from),
        pcie_generation: device.current_pcie_link_gen().ok(),
        pcie_width: device.current_pcie_link_width().ok(),
        nvlinks: links::read(device),
        ecc_volatile: ecc(device, EccCounter::Volatile),
        ecc_aggregate: ecc(device, EccCounter::Aggregate),
        remapped_rows: known(rows),
        remap_pending: pending.map(|pending| pending != 0),
        remap_failed: failed.map(|failed| failed != 0),
        fans_percent: fans(device),
        performance_state: device.performance_state().ok().and_then(performance_state),
        compute_processes: device.running_compute_processes().ok().map(|all| all.len() as u32),
    }
}

fn clocks(read: impl Fn(Clock) -> Option<u32>) -> BTreeMap<String, u32> {
    let all = [
        ("graphics", Clock::Graphics),
        ("sm", Clock::SM),
        ("memory", Clock::Memory),
        ("video", Clock::Video),
    ];
    known(all.map(|(name, clock)| (name, read(clock))))
}

/// Every reason that this GPU supports, and whether it is active.
fn throttle(device: &Device<'_>) -> BTreeMap<String, bool> {
    let Ok(now) = device.current_throttle_reasons() else { return BTreeMap::new() };
    let supported = device.supported_throttle_reasons().unwrap_or(now);
    let reasons = REASONS.iter().filter(|(_, reason)| supported.contains(*reason));
    reasons.map(|(name, reason)| ((*name).to_owned(), now.contains(*reason))).collect()
}

/// NVML reports kilobytes per second.
fn pcie(device: &Device<'_>, direction: PcieUtilCounter) -> Option<u64> {
    device.pcie_throughput(direction).ok().map(|kilobytes| u64::from(kilobytes) * 1000)
}

fn ecc(device: &Device<'_>, since: EccCounter) -> BTreeMap<String, u64> {
    let all = [("corrected", MemoryError::Corrected), ("uncorrected", MemoryError::Uncorrected)];
    known(all.map(|(name, kind)| (name, device.total_ecc_errors(kind, since).ok())))
}

fn fans(device: &Device<'_>) -> Vec<u32> {
    let count = device.num_fans().unwrap_or(0).min(MAX_FANS);
    (0..count).filter_map(|fan| device.fan_speed(fan).ok()).collect()
}

fn performance_state(state: PerformanceState) -> Option<u32> {
    let number = state.as_c();
    (number <= SLOWEST_STATE).then_some(number)
}

fn known<T>(all: impl IntoIterator<Item = (&'static str, Option<T>)>) -> BTreeMap<String, T> {
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

const FIELDS: [u32; 5] = [
    field_id::NVML_FI_DEV_MEMORY_TEMP,
    field_id::NVML_FI_DEV_REMAPPED_COR,
    field_id::NVML_FI_DEV_REMAPPED_UNC,
    field_id::NVML_FI_DEV_REMAPPED_PENDING,
    field_id::NVML_FI_DEV_REMAPPED_FAILURE,
];
/// For fields of the GPU as a whole.
const NO_LINK: u32 = 0;

const REASONS: &[(&str, ThrottleReasons)] = &[
    ("gpu_idle", ThrottleReasons::GPU_IDLE),
    ("applications_clocks_setting", ThrottleReasons::APPLICATIONS_CLOCKS_SETTING),
    ("sw_power_cap", ThrottleReasons::SW_POWER_CAP),
    ("hw_slowdown", ThrottleReasons::HW_SLOWDOWN),
    ("sync_boost", ThrottleReasons::SYNC_BOOST),
    ("sw_thermal_slowdown", ThrottleReasons::SW_THERMAL_SLOWDOWN),
    ("hw_thermal_slowdown", ThrottleReasons::HW_THERMAL_SLOWDOWN),
    ("hw_power_brake_slowdown", ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN),
    ("display_clock_setting", ThrottleReasons::DISPLAY_CLOCK_SETTING),
];

const MAX_FANS: u32 = 16;
/// Larger numbers are unknown states.
const SLOWEST_STATE: u32 = 15;
