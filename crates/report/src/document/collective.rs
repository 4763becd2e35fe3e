//! Results of nccl-tests and PyTorch: a table of collective operations.

use serde::{Deserialize, Serialize};

/// A run of one collective operation over several sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// The program that measured, with its version if known.
    pub tool: String,
    /// The operation (`all_reduce`), if known.
    pub operation: Option<String>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// Their hosts.
    pub hosts: Vec<String>,
    /// One row per size.
    pub rows: Vec<CollectiveRow>,
    /// The average bus bandwidth as printed by the program, in gigabytes (10^9) per second.
    pub average_bus_gb_per_second: Option<f64>,
    /// Wrong values, over all rows; null if not checked.
    pub wrong: Option<u64>,
    /// The total rate of a node's ports that it used, if known.
    pub link_gbps: Option<f64>,
    /// The used share of that; may exceed 1 if switches reduce.
    pub efficiency: Option<f64>,
}

/// One size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveRow {
    /// Bytes.
    pub size_bytes: u64,
    /// Elements.
    pub count: Option<u64>,
    /// Their type.
    pub datatype: Option<String>,
    /// The reduction.
    pub reduction: Option<String>,
    /// The root rank; null if the operation has none.
    pub root: Option<u32>,
    /// From one buffer into another.
    pub out_of_place: Option<CollectiveResult>,
    /// Within one buffer.
    pub in_place: Option<CollectiveResult>,
}

/// The out-of-place or in-place result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveResult {
    /// Microseconds.
    pub time_us: f64,
    /// Algorithm bandwidth: bytes over time.
    pub algorithm_gb_per_second: f64,
    /// Bus bandwidth: the share of it that crosses links.
    pub bus_gb_per_second: f64,
    /// Wrong values; null if not checked.
    pub wrong: Option<u64>,
}
