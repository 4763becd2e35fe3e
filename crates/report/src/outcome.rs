//! What a measurement gave.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Latency, Plan};

/// What a measurement gave, at both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was measured, as it was done.
    pub plan: Plan,
    /// The paths it used.
    pub rails: Vec<Rail>,
    /// How long, without the warm-up.
    pub seconds: f64,
    /// Operations that are over; of a test in both directions, of both ends.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// How long each took: of writes and sends in a latency test half of there and back, else from post to completion.
    pub latency: Latency,
    /// CPU time of the thread that measured here.
    pub cpu_seconds: f64,
    /// CPU time of the thread that served there.
    pub peer_cpu_seconds: f64,
    /// Of datagrams: how many did not arrive.
    pub lost: Option<u64>,
    /// Whether the bytes that arrived are those that were sent, if that was asked.
    pub verified: Option<bool>,
    /// How far counters of the ports moved here meanwhile, by name.
    pub counters: BTreeMap<String, u64>,
    /// How far those of the other end did.
    pub peer_counters: BTreeMap<String, u64>,
}

/// A path between the two ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rail {
    /// Here: a device and its port, or an address.
    pub here: String,
    /// There.
    pub there: String,
    /// RDMA: the GID that is used here.
    pub gid: Option<String>,
    /// RDMA: the largest packet.
    pub mtu: Option<u32>,
    /// RDMA: what the slower of the two ports runs at.
    pub rate_mbps: Option<u64>,
    /// Why these two.
    pub why: String,
}

impl Outcome {
    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// Gigabits a second.
    pub fn gbps(&self) -> f64 {
        self.bytes_per_second() * 8.0 / 1e9
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// CPU seconds of this end for a gigabyte (10^9 bytes).
    pub fn cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_seconds / (self.bytes as f64 / 1e9))
    }

    /// The same of the other end.
    pub fn peer_cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.peer_cpu_seconds / (self.bytes as f64 / 1e9))
    }
}
