//! One sample of a machine.

use node::Counter;
use node::queries::{NvmlGpu, ProcessResources};
use node::sampling::Usage;
use serde::{Deserialize, Serialize};

/// One sample. `top --record` writes it as a line of JSON, without unknown values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineSample {
    /// The time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The host name.
    pub host: Option<String>,
    /// RDMA devices, in the order of their names.
    pub devices: Vec<SampledDevice>,
    /// Devices that were present since the watch started, and are not now.
    pub gone: Vec<String>,
    /// NVIDIA's GPUs, in NVML's order.
    pub gpus: Vec<NvmlGpu>,
    /// The version of their driver.
    pub gpu_driver: Option<String>,
    /// CPUs and memory.
    pub usage: Option<Usage>,
    /// Processes with RDMA resources, if requested.
    pub processes: Vec<ProcessResources>,
    /// A store on this machine, if requested.
    pub store: Option<SampledStore>,
    /// A peer that is probed, if requested.
    pub probe: Option<Probe>,
    /// The last run of each collector.
    pub runs: Vec<CollectorRun>,
}

/// An RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledDevice {
    /// `mlx5_0`.
    pub name: String,
    /// `mlx5_core`, `rxe`.
    pub driver: Option<String>,
    /// The NIC's firmware.
    pub firmware: Option<String>,
    /// The NIC's model: `MT4129`.
    pub hca_type: Option<String>,
    /// The board's name.
    pub board_id: Option<String>,
    /// Where it is plugged in: `0000:3b:00.0`.
    pub pci: Option<String>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// `physical`, `virtual`, `software`; `None` if not known.
    pub function: Option<String>,
    /// Of a virtual function: the RDMA device of its physical function if that is visible, else its PCI address.
    pub physical_function: Option<String>,
    /// Counters of the device as a whole.
    pub counters: Vec<Counter>,
    /// The number of counters of it and its ports that were not read: more unlisted ones than the limit.
    pub left_out: u64,
    /// How often one of the device's own counters was lower than in the sample before: it wrapped, or was reset.
    pub decreases: u64,
    /// From the first.
    pub ports: Vec<SampledPort>,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledPort {
    /// From 1.
    pub number: u32,
    /// Its net device.
    pub netdev: Option<String>,
    /// `InfiniBand`, `Ethernet`, `Unknown`.
    pub link_layer: Option<String>,
    /// The kernel's number: 4 is active.
    pub state: Option<u32>,
    /// The kernel's number: 5 is up.
    pub phys_state: Option<u32>,
    /// The current rate.
    pub rate_mbps: Option<u64>,
    /// The expected rate, as in the doctor's check `rate`.
    pub expected_mbps: Option<u64>,
    /// The source of the expected rate: `the cable`.
    pub expected_by: Option<String>,
    /// Its counters: `counters/` first, then the driver's, then those of its net device from ethtool.
    pub counters: Vec<Counter>,
    /// How often one of them was lower than in the sample before: it wrapped, or was reset.
    pub decreases: u64,
}

/// A Wirelane store on this machine, from its `/metrics`: names without prefix and labels, values summed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledStore {
    /// The address of its metrics.
    pub address: String,
    /// Its values by name: `store_hits_total`.
    pub numbers: std::collections::BTreeMap<String, f64>,
    /// Links that are up, by transport: `tcp`.
    pub links: std::collections::BTreeMap<String, f64>,
}

/// Round trips of small messages to a peer, since the sample before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// The address of the peer.
    pub peer: String,
    /// The transport of the link, while it is up: `verbs`.
    pub transport: Option<String>,
    /// Why there is no link, or why it ended.
    pub why: Option<String>,
    /// The number of messages sent.
    pub sent: u64,
    /// Messages that were not answered in time.
    pub lost: u64,
    /// p50 of the round trip, in nanoseconds.
    #[serde(alias = "median_ns")]
    pub p50_ns: Option<u64>,
    /// p99 of the round trip, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The average difference between consecutive round trips, in nanoseconds.
    pub jitter_ns: Option<u64>,
}

/// The last run of a collector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorRun {
    /// `rdma`, `gpu`, `host`, `processes`, `store`.
    pub collector: String,
    /// Whether it succeeded; an absent device or library is a success.
    pub success: bool,
    /// Its duration.
    pub seconds: f64,
    /// Its age: within its interval, a collector's last result is reused.
    pub age_seconds: f64,
    /// The error, if it failed.
    pub why: Option<String>,
}
