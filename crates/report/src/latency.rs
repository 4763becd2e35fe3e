//! Latencies of operations, as quantiles.

use serde::{Deserialize, Serialize};

/// Durations in nanoseconds, by quantiles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were timed.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Half were shorter.
    pub p50_ns: u64,
    /// Nine in ten were shorter.
    pub p90_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// All but one in a thousand.
    pub p99_9_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// On the average.
    pub mean_ns: f64,
    /// The standard deviation.
    pub stdev_ns: f64,
    /// How they are distributed: the upper end of each step, and how many lay in it; for plots.
    pub steps: Vec<(u64, u64)>,
}

impl Latency {
    /// Jitter: what separates an unlucky operation from a usual one.
    pub fn jitter_ns(&self) -> u64 {
        self.p99_ns - self.p50_ns
    }
}
