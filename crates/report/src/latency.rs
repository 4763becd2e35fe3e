//! Latencies of operations, as quantiles.

use serde::{Deserialize, Serialize};

/// Durations in nanoseconds, by quantiles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stdev_ns: f64,
    /// Histogram for plots: the upper bound of each bucket, and its number of samples.
    #[serde(alias = "steps")]
    pub buckets: Vec<(u64, u64)>,
}

impl Latency {
    /// Jitter: p99 − p50.
    pub fn jitter_ns(&self) -> u64 {
        self.p99_ns - self.p50_ns
    }
}
