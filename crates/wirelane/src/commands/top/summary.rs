//! The summary of one interval, from two samples: rates, state and faults. The screen and `--json` display it.

use doctor::monitoring::{
    CollectorRun, MachineSample, Probe, SampledDevice, SampledPort, SampledStore,
};
use node::queries::NvmlGpu;
use serde::Serialize;

use super::rates::{self, Rates};
use crate::commands::snapshot::date;

/// One interval. As JSON it is a line of `top --json`; docs/top.md describes its fields.
#[derive(Debug, Clone, Serialize)]
pub(super) struct IntervalSummary {
    /// `2026-11-15T17:04:05Z`.
    pub(super) time: String,
    pub(super) at_ms: u64,
    pub(super) host: Option<String>,
    /// Seconds since the previous sample; `None` for the first.
    pub(super) seconds: Option<f64>,
    pub(super) ports: Vec<PortSummary>,
    /// Devices that have disappeared.
    pub(super) gone: Vec<String>,
    pub(super) gpus: Vec<GpuSummary>,
    pub(super) usage: UsageSummary,
    pub(super) store: Option<StoreSummary>,
    pub(super) probe: Option<Probe>,
    /// Collectors that failed, entirely or in part.
    pub(super) failed_collectors: Vec<CollectorRun>,
}

/// A port.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct PortSummary {
    pub(super) device: String,
    pub(super) port: u32,
    pub(super) netdev: Option<String>,
    pub(super) link_layer: Option<String>,
    pub(super) state: Option<&'static str>,
    pub(super) rate_mbps: Option<u64>,
    pub(super) expected_mbps: Option<u64>,
    pub(super) expected_by: Option<String>,
    #[serde(flatten)]
    pub(super) rates: Rates,
    /// Counters that cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// A GPU: NVML's values, and rates.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GpuSummary {
    #[serde(flatten)]
    pub(super) gpu: NvmlGpu,
    pub(super) nvlink_receive_bytes_per_second: Option<f64>,
    pub(super) nvlink_transmit_bytes_per_second: Option<f64>,
}

/// CPUs and memory.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct UsageSummary {
    pub(super) cpus: Option<u32>,
    /// Busy share of all CPUs' time.
    pub(super) cpu_busy: Option<f64>,
    pub(super) load1: Option<f64>,
    pub(super) memory_total_bytes: Option<u64>,
    pub(super) memory_available_bytes: Option<u64>,
}

/// The store of this machine.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct StoreSummary {
    pub(super) address: String,
    pub(super) keys: Option<f64>,
    pub(super) hits_per_second: Option<f64>,
    pub(super) misses_per_second: Option<f64>,
    pub(super) puts_per_second: Option<f64>,
    pub(super) read_bytes_per_second: Option<f64>,
    pub(super) written_bytes_per_second: Option<f64>,
    pub(super) pool_bytes: Option<f64>,
    pub(super) pool_used_bytes: Option<f64>,
    /// p99 latency of RDMA operations.
    pub(super) p99_ns: Option<f64>,
    /// Links that are up, by transport.
    pub(super) links: std::collections::BTreeMap<String, f64>,
}

impl IntervalSummary {
    /// Compares two samples.
    pub(super) fn between(before: Option<&MachineSample>, now: &MachineSample) -> IntervalSummary {
        let span = |collector| before.map_or(0.0, |before| seconds_between(before, now, collector));
        let (rdma, gpu_span) = (span("rdma"), span("gpu"));
        let ports = now.devices.iter().flat_map(|device| {
            let earlier = before.and_then(|before| find(before, &device.name));
            device.ports.iter().map(move |port| PortSummary::of(earlier, device, port, rdma))
        });
        let seconds = Some(span("sample")).filter(|seconds| *seconds > 0.0);
        IntervalSummary {
            time: date::rfc3339(
                std::time::UNIX_EPOCH + std::time::Duration::from_millis(now.at_ms),
            ),
            at_ms: now.at_ms,
            host: now.host.clone(),
            seconds,
            ports: ports.collect(),
            gone: now.gone.clone(),
            gpus: now.gpus.iter().map(|gpu| GpuSummary::of(before, gpu, gpu_span)).collect(),
            usage: UsageSummary::of(before, now),
            store: now.store.as_ref().map(|store| StoreSummary::of(before, store, span("store"))),
            probe: now.probe.clone(),
            failed_collectors: now.runs.iter().filter(|run| !run.success).cloned().collect(),
        }
    }

    /// Removes devices that are not selected.
    pub(super) fn retain(&mut self, is_selected: impl Fn(&str) -> bool) {
        self.ports.retain(|port| is_selected(&port.device));
        self.gone.retain(|device| is_selected(device));
    }
}

impl PortSummary {
    fn of(
        earlier: Option<&SampledDevice>,
        device: &SampledDevice,
        port: &SampledPort,
        seconds: f64,
    ) -> Self {
        let before = earlier
            .and_then(|device| device.ports.iter().find(|before| before.number == port.number));
        let unreadable = port.counters.iter().filter(|counter| counter.number().is_none());
        PortSummary {
            device: device.name.clone(),
            port: port.number,
            netdev: port.netdev.clone(),
            link_layer: port.link_layer.clone(),
            state: port.state.map(state),
            rate_mbps: port.rate_mbps,
            expected_mbps: port.expected_mbps,
            expected_by: port.expected_by.clone(),
            rates: rates::port(before, port, seconds),
            unreadable: unreadable.map(|counter| counter.name.clone()).collect(),
        }
    }

    /// Its displayed name: `mlx5_0/1`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.device, self.port)
    }

    /// Bits per second, the sum of both directions.
    pub(super) fn bits(&self) -> Option<f64> {
        let directions = [&self.rates.receive, &self.rates.transmit];
        let known = directions.iter().filter_map(|direction| direction.bytes_per_second);
        let bytes = known.fold(None, |sum: Option<f64>, one| Some(sum.unwrap_or(0.0) + one));
        bytes.map(|bytes| bytes * 8.0)
    }

    /// Congestion events; without counters of them, wait ticks.
    pub(super) fn congestion(&self) -> Option<f64> {
        self.rates.congestion_per_second.or(self.rates.wait_ticks_per_second)
    }

    /// Whether it is active; true if unknown.
    pub(super) fn is_active(&self) -> bool {
        self.state.is_none_or(|state| state.starts_with("active"))
    }

    /// Whether its rate is lower than expected.
    pub(super) fn is_slow(&self) -> bool {
        let rates = self.rate_mbps.zip(self.expected_mbps);
        self.is_active() && rates.is_some_and(|(rate, expected)| rate < expected)
    }
}

impl GpuSummary {
    fn of(before: Option<&MachineSample>, gpu: &NvmlGpu, seconds: f64) -> Self {
        let same = |other: &&NvmlGpu| other.index == gpu.index && other.uuid == gpu.uuid;
        let earlier = before.and_then(|before| before.gpus.iter().find(same));
        let sum = |gpu: &NvmlGpu, received: bool| {
            let bytes =
                gpu.reading.nvlinks.values().filter_map(|link| {
                    if received { link.receive_bytes } else { link.transmit_bytes }
                });
            bytes.fold(None, |sum: Option<u64>, one| Some(sum.unwrap_or(0).saturating_add(one)))
        };
        let rate = |received| rates::growth(sum(earlier?, received)?, sum(gpu, received)?, seconds);
        GpuSummary {
            nvlink_receive_bytes_per_second: rate(true),
            nvlink_transmit_bytes_per_second: rate(false),
            gpu: gpu.clone(),
        }
    }

    /// Reasons why its clocks are throttled, without harmless ones.
    pub(super) fn throttled(&self) -> Vec<&str> {
        let active = self.gpu.reading.throttle.iter().filter(|(_, is_active)| **is_active);
        active
            .map(|(name, _)| name.as_str())
            .filter(|name| !HARMLESS_REASONS.contains(name))
            .collect()
    }
}

impl UsageSummary {
    fn of(before: Option<&MachineSample>, now: &MachineSample) -> Self {
        let Some(usage) = &now.usage else { return UsageSummary::default() };
        let earlier = before.and_then(|before| before.usage.as_ref());
        let idle = |name: &str| matches!(name, "idle" | "iowait");
        let time = |only_idle: bool| {
            let spent = usage.cpu_seconds.iter().filter(|(name, _)| !only_idle || idle(name));
            let spent = spent.map(|(name, now)| {
                now - earlier.and_then(|before| before.cpu_seconds.get(name)).unwrap_or(now)
            });
            spent.sum::<f64>()
        };
        let (all, idle) = (time(false), time(true));
        UsageSummary {
            cpus: usage.cpus,
            cpu_busy: (all > 0.0).then(|| (1.0 - idle / all).clamp(0.0, 1.0)),
            load1: usage.load1,
            memory_total_bytes: usage.memory_bytes.get("total").copied(),
            memory_available_bytes: usage.memory_bytes.get("available").copied(),
        }
    }
}

impl StoreSummary {
    fn of(before: Option<&MachineSample>, store: &SampledStore, seconds: f64) -> Self {
        let same = |other: &&SampledStore| other.address == store.address;
        let earlier = before.and_then(|before| before.store.as_ref()).filter(same);
        let number = |name: &str| store.numbers.get(name).copied();
        let rate = |name: &str| {
            let grown = number(name)? - earlier?.numbers.get(name)?;
            (grown >= 0.0 && seconds > 0.0).then(|| grown / seconds)
        };
        StoreSummary {
            address: store.address.clone(),
            keys: number("store_keys"),
            hits_per_second: rate("store_hits_total"),
            misses_per_second: rate("store_misses_total"),
            puts_per_second: rate("store_puts_total"),
            read_bytes_per_second: rate("store_read_bytes_total"),
            written_bytes_per_second: rate("store_written_bytes_total"),
            pool_bytes: number("pool_bytes"),
            pool_used_bytes: number("pool_used_bytes"),
            p99_ns: number("rdma_send_latency_ns_p99"),
            links: store.links.clone(),
        }
    }
}

fn find<'f>(sample: &'f MachineSample, device: &str) -> Option<&'f SampledDevice> {
    sample.devices.iter().find(|known| known.name == device)
}

/// Seconds between a collector's readings in two samples; 0 if the clock went back.
fn seconds_between(before: &MachineSample, now: &MachineSample, collector: &str) -> f64 {
    let when = |sample: &MachineSample| {
        let run = sample.runs.iter().find(|run| run.collector == collector);
        sample.at_ms as f64 / 1e3 - run.map_or(0.0, |run| run.age_seconds)
    };
    // Rounded to milliseconds: finer digits are rounding errors.
    ((when(now) - when(before)) * 1e3).round().max(0.0) / 1e3
}

/// The name of the kernel's port state.
fn state(number: u32) -> &'static str {
    match number {
        0 => "nop",
        1 => "down",
        2 => "init",
        3 => "armed",
        4 => "active",
        5 => "active_defer",
        _ => "unknown",
    }
}

/// Throttle reasons that are not faults: idle, or configured.
const HARMLESS_REASONS: &[&str] =
    &["gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"];
