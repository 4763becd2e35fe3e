//! The result of a measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Latency, Plan};

/// The result of a measurement, from both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The plan as it was executed.
    pub plan: Plan,
    /// The paths used.
    pub rails: Vec<Rail>,
    /// Duration without the warm-up.
    pub seconds: f64,
    /// Completed operations; of both ends in a test in both directions.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Latencies: for writes and sends in a latency test half of the round-trip time, else from post to completion.
    pub latency: Latency,
    /// CPU time of the local thread.
    pub cpu_seconds: f64,
    /// CPU time of the peer's thread.
    pub peer_cpu_seconds: f64,
    /// Number of datagrams lost.
    pub lost: Option<u64>,
    /// Whether the received data is equal to the sent data, if that was requested.
    pub verified: Option<bool>,
    /// Growth of the local ports' counters during the measurement, by name.
    pub counters: BTreeMap<String, u64>,
    /// Growth of the peer's counters.
    pub peer_counters: BTreeMap<String, u64>,
}

/// A path between the two ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rail {
    /// Local end: a device and its port, or an address.
    pub local: String,
    /// The peer's end.
    pub peer: String,
    /// RDMA: the local GID.
    pub gid: Option<String>,
    /// RDMA: the MTU.
    pub mtu: Option<u32>,
    /// RDMA: the rate of the slower of the two ports.
    pub rate_mbps: Option<u64>,
    /// Why this path was chosen.
    pub why: String,
}

impl Outcome {
    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// Gigabits per second.
    pub fn gbps(&self) -> f64 {
        self.bytes_per_second() * 8.0 / 1e9
    }

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Local CPU seconds per gigabyte (10^9 bytes).
    pub fn cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_seconds / (self.bytes as f64 / 1e9))
    }

    /// The peer's CPU seconds per gigabyte.
    pub fn peer_cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.peer_cpu_seconds / (self.bytes as f64 / 1e9))
    }
}
