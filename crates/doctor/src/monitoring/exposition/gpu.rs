//! NVIDIA's GPUs.

use std::collections::BTreeMap;

use metric::{Exposition, Row, Value};
use node::queries::{GpuReading, NvLink, NvmlGpu};

use super::labels;
use crate::monitoring::rows;

pub(super) fn expose(gpus: &[NvmlGpu], driver: Option<&str>, own: &mut Exposition) {
    for gpu in gpus {
        let index = gpu.index.to_string();
        let all = labels([
            ("gpu", Some(&index)),
            ("uuid", gpu.uuid.as_deref()),
            ("name", gpu.name.as_deref()),
            ("pci", gpu.pci.as_deref()),
            ("driver", driver),
        ]);
        own.add(&rows::GPU_INFO, &all, true);
        let labels = labels([("gpu", Some(&index)), ("uuid", gpu.uuid.as_deref())]);
        GpuSamples { own, labels: &labels }.add_reading(&gpu.reading);
    }
}

/// Adds the samples of one GPU.
struct GpuSamples<'e> {
    own: &'e mut Exposition,
    labels: &'e [(&'static str, &'e str)],
}

impl GpuSamples<'_> {
    fn add_reading(&mut self, now: &GpuReading) {
        self.add_values(now);
        self.add_by_name(now);
        for (fan, percent) in now.fans_percent.iter().enumerate() {
            self.add_labelled("fan", &fan.to_string(), &rows::GPU_FAN, ratio(*percent));
        }
        for (number, link) in &now.nvlinks {
            self.add_nvlink(&number.to_string(), link);
        }
    }

    fn add_values(&mut self, now: &GpuReading) {
        let whole = |number: Option<u64>| number.map(Value::from);
        let small = |number: Option<u32>| number.map(|number| Value::from(u64::from(number)));
        let thousandths =
            |number: Option<u64>| number.map(|number| Value::Real(number as f64 / 1e3));
        let percent = |number: Option<u32>| number.map(ratio);
        let values: [(&Row, Option<Value>); 20] = [
            (&rows::GPU_TEMPERATURE, small(now.temperature_c)),
            (&rows::GPU_MEMORY_TEMPERATURE, small(now.memory_temperature_c)),
            (&rows::GPU_SLOWDOWN_TEMPERATURE, small(now.slowdown_temperature_c)),
            (&rows::GPU_UTILIZATION, percent(now.utilization_percent)),
            (&rows::GPU_MEMORY_UTILIZATION, percent(now.memory_utilization_percent)),
            (&rows::GPU_MEMORY_USED, whole(now.memory_used_bytes)),
            (&rows::GPU_MEMORY_FREE, whole(now.memory_free_bytes)),
            (&rows::GPU_MEMORY_TOTAL, whole(now.memory_total_bytes)),
            (&rows::GPU_POWER, thousandths(now.power_mw)),
            (&rows::GPU_POWER_LIMIT, thousandths(now.power_limit_mw)),
            (&rows::GPU_ENERGY, thousandths(now.energy_mj)),
            (&rows::GPU_PCIE_RECEIVE, whole(now.pcie_receive_bytes_per_second)),
            (&rows::GPU_PCIE_TRANSMIT, whole(now.pcie_transmit_bytes_per_second)),
            (&rows::GPU_PCIE_REPLAYS, whole(now.pcie_replays)),
            (&rows::GPU_PCIE_GENERATION, small(now.pcie_generation)),
            (&rows::GPU_PCIE_WIDTH, small(now.pcie_width)),
            (&rows::GPU_REMAP_PENDING, now.remap_pending.map(Value::from)),
            (&rows::GPU_REMAP_FAILED, now.remap_failed.map(Value::from)),
            (&rows::GPU_PERFORMANCE_STATE, small(now.performance_state)),
            (&rows::GPU_PROCESSES, small(now.compute_processes)),
        ];
        for (row, value) in values {
            if let Some(value) = value {
                self.own.add(row, self.labels, value);
            }
        }
    }

    fn add_by_name(&mut self, now: &GpuReading) {
        for (row, clocks) in
            [(&rows::GPU_CLOCK, &now.clocks_mhz), (&rows::GPU_CLOCK_MAX, &now.max_clocks_mhz)]
        {
            for (clock, mhz) in clocks {
                self.add_labelled("clock", clock, row, u64::from(*mhz) * 1_000_000);
            }
        }
        for (reason, is_active) in &now.throttle {
            self.add_labelled("reason", reason, &rows::GPU_THROTTLED, *is_active);
        }
        for (xid, times) in &now.xids {
            self.add_labelled("xid", &xid.to_string(), &rows::GPU_XIDS, *times);
        }
        self.add_ecc("boot", &now.ecc_volatile);
        self.add_ecc("life", &now.ecc_aggregate);
        for (cause, count) in &now.remapped_rows {
            self.add_labelled("cause", cause, &rows::GPU_REMAPPED, *count);
        }
    }

    fn add_ecc(&mut self, since: &str, errors: &BTreeMap<String, u64>) {
        for (kind, count) in errors {
            let labels = [self.labels, &[("kind", kind.as_str()), ("since", since)]].concat();
            self.own.add(&rows::GPU_ECC, &labels, *count);
        }
    }

    fn add_nvlink(&mut self, number: &str, link: &NvLink) {
        if let Some(active) = link.active {
            self.add_labelled("link", number, &rows::GPU_NVLINK_ACTIVE, active);
        }
        if let Some(bytes) = link.receive_bytes {
            self.add_labelled("link", number, &rows::GPU_NVLINK_RECEIVE, bytes);
        }
        if let Some(bytes) = link.transmit_bytes {
            self.add_labelled("link", number, &rows::GPU_NVLINK_TRANSMIT, bytes);
        }
        for (kind, count) in &link.errors {
            let labels = [self.labels, &[("link", number), ("kind", kind.as_str())]].concat();
            self.own.add(&rows::GPU_NVLINK_ERRORS, &labels, *count);
        }
    }

    fn add_labelled(
        &mut self,
        label: &'static str,
        name: &str,
        row: &Row,
        value: impl Into<Value>,
    ) {
        let labels = [self.labels, &[(label, name)]].concat();
        self.own.add(row, &labels, value);
    }
}

fn ratio(percent: u32) -> Value {
    Value::Real(f64::from(percent) / 100.0)
}
