//! One reading of a machine.

use node::Counter;
use node::answers::{Holder, NvmlGpu};
use node::watch::Usage;
use serde::{Deserialize, Serialize};

/// One look. Written as a line of JSON it is what `top --record` keeps; what is not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What the machine is called.
    pub host: Option<String>,
    /// RDMA devices, in the order of their names.
    pub devices: Vec<Device>,
    /// Devices that were there since the watch began, and are not there now.
    pub gone: Vec<String>,
    /// NVIDIA's GPUs, in NVML's order.
    pub gpus: Vec<NvmlGpu>,
    /// The version of their driver.
    pub gpu_driver: Option<String>,
    /// CPUs and memory.
    pub usage: Option<Usage>,
    /// Who holds RDMA resources, where that was asked for.
    pub holders: Vec<Holder>,
    /// The store that runs on this machine, if one was named.
    pub store: Option<Store>,
    /// A peer that is probed, if one was named.
    pub probe: Option<Probe>,
    /// How each collector fared.
    pub runs: Vec<Run>,
}

/// An RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// `mlx5_0`.
    pub name: String,
    /// `mlx5_core`, `rxe`.
    pub driver: Option<String>,
    /// The card's firmware.
    pub firmware: Option<String>,
    /// The card's model: `MT4129`.
    pub hca_type: Option<String>,
    /// The board's name.
    pub board_id: Option<String>,
    /// Where it is plugged in: `0000:3b:00.0`.
    pub pci: Option<String>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// `physical`, `virtual`, `software`; nothing where the machine does not tell.
    pub function: Option<String>,
    /// Of a virtual function: the RDMA device of its card if that is here, else the card's PCI address.
    pub physical_function: Option<String>,
    /// Counters of the device as a whole.
    pub counters: Vec<Counter>,
    /// How many counters of it and its ports were not read, since the driver has too many that have no name here.
    pub left_out: u64,
    /// How often one of the device's own counters was lower than in the look before: it wrapped, or was reset.
    pub went_back: u64,
    /// From the first.
    pub ports: Vec<Port>,
}

/// A port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
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
    /// What it runs at.
    pub rate_mbps: Option<u64>,
    /// What it should run at, by the doctor's rule.
    pub expected_mbps: Option<u64>,
    /// What that follows from: `the cable`.
    pub expected_by: Option<String>,
    /// Its counters: `counters/` first, then the driver's, then those of its net device by ethtool.
    pub counters: Vec<Counter>,
    /// How often one of them was lower than in the look before: it wrapped, or was reset.
    pub went_back: u64,
}

/// A store of ours on this machine, by what its `/metrics` says: names without prefix and labels, values added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// Where it was asked.
    pub address: String,
    /// Its numbers by name: `store_hits_total`.
    pub numbers: std::collections::BTreeMap<String, f64>,
    /// Links that are up, by the kind of lane in use: `tcp`.
    pub links: std::collections::BTreeMap<String, f64>,
}

/// Small messages to a peer and back, since the frame before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Where it listens.
    pub peer: String,
    /// The kind of lane that they use, while there is a link: `verbs`.
    pub lane: Option<String>,
    /// Why there is no link, or why it ended.
    pub why: Option<String>,
    /// How many were to be answered.
    pub sent: u64,
    /// Those that were not answered in time.
    pub lost: u64,
    /// p50 of the round trip, in nanoseconds.
    pub median_ns: Option<u64>,
    /// p99 of the round trip, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// By how many nanoseconds one differs from the one before, on the average.
    pub jitter_ns: Option<u64>,
}

/// How a collector fared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// `rdma`, `gpu`, `host`, `processes`, `store`.
    pub collector: String,
    /// Whether it got what there is; that there is none counts as done.
    pub success: bool,
    /// How long it took.
    pub seconds: f64,
    /// How long ago that was: within its interval, a collector's last result is used again.
    pub age_seconds: f64,
    /// Why it failed.
    pub why: Option<String>,
}
