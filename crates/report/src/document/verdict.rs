//! The verdict on a run. It is part of the document; `doctor` gives it.

use serde::{Deserialize, Serialize};

/// Whether the results are what this path should reach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// A summary in one sentence.
    pub summary: String,
    /// The expected bandwidth: the lowest of the bounds.
    pub expected_gbps: Option<f64>,
    /// Upper bounds of the bandwidth, the lowest first.
    pub bounds: Vec<Bound>,
    /// The best measured bandwidth.
    pub reached_gbps: Option<f64>,
    /// Its ratio to the expected bandwidth.
    pub ratio: Option<f64>,
    /// Likely bottlenecks.
    pub bottlenecks: Vec<Bottleneck>,
    /// Notes: missed targets, and why there is no verdict.
    pub notes: Vec<String>,
    /// Whether `--expect` is met.
    pub expectation: Option<Expectation>,
}

/// An upper bound of a path's bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The port, the PCIe hop, …
    pub what: String,
    /// Bandwidth for payload there, in gigabits (10^9) per second.
    pub gbps: f64,
    /// The values that it is computed from.
    pub evidence: String,
}

/// A likely bottleneck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// The bottleneck.
    pub what: String,
    /// The evidence.
    pub evidence: String,
    /// The fix, if there is one.
    pub fix: Option<String>,
}

/// The value of `--expect`, and the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The value as given.
    pub expected: String,
    /// The result, in the same unit.
    pub reached: String,
    /// Whether it is met.
    pub met: bool,
}
