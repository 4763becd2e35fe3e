//! Every pair of several hosts.

use serde::{Deserialize, Serialize};

/// Every pair. Rows are the hosts that measured, columns their peers, both in the order of `hosts`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The hosts.
    pub hosts: Vec<String>,
    /// Bandwidth; null if not measured.
    pub gbps: Vec<Vec<Option<f64>>>,
    /// Median latency; null if not measured.
    pub latency_us: Vec<Vec<Option<f64>>>,
    /// The median of all pairs' bandwidth.
    pub median_gbps: Option<f64>,
    /// Pairs far below the median, the slowest first.
    #[serde(alias = "slow_links")]
    pub slow_pairs: Vec<SlowPair>,
    /// Hosts all of whose pairs are far below the median.
    pub slow_hosts: Vec<SlowHost>,
    /// Pairs that could not be measured.
    pub failed: Vec<FailedPair>,
}

/// A pair far below the median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowPair {
    /// The host that measured.
    pub from: String,
    /// The peer.
    pub to: String,
    /// Its bandwidth.
    pub gbps: f64,
    /// Its ratio to the median.
    pub ratio_to_median: f64,
}

/// A host all of whose pairs are far below the median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowHost {
    /// The host.
    pub host: String,
    /// The median of its pairs.
    pub gbps: f64,
    /// Its ratio to the median of all pairs.
    pub ratio_to_median: f64,
}

/// A pair that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedPair {
    /// The host that measured.
    pub from: String,
    /// The peer.
    pub to: String,
    /// The reason.
    pub why: String,
}
