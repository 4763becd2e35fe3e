//! What nccl-tests and PyTorch measure: a table of collective operations.

use serde::{Deserialize, Serialize};

/// A run of one collective operation over several sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// The program that measured, with its version if it says so.
    pub tool: String,
    /// Such as `all_reduce`, if that is known.
    pub operation: Option<String>,
    /// How many took part.
    pub ranks: Option<u32>,
    /// The hosts they ran on.
    pub hosts: Vec<String>,
    /// Each size.
    pub rows: Vec<CollectiveRow>,
    /// What the program says is the average bus bandwidth, in gigabytes (10^9) a second.
    pub average_bus_gb_per_second: Option<f64>,
    /// Wrong values, over all rows; null where they were not checked.
    pub wrong: Option<u64>,
    /// The rate of the ports of a node that it went by, together, if that is known.
    pub link_gbps: Option<f64>,
    /// What of that was used, as a part; more than 1 where switches reduce.
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
    /// The root rank; none has no root.
    pub root: Option<u32>,
    /// From one buffer into another.
    pub out_of_place: Option<Half>,
    /// Within one buffer.
    pub in_place: Option<Half>,
}

/// One half of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    /// Microseconds.
    pub time_us: f64,
    /// Bytes over time.
    pub algorithm_gb_per_second: f64,
    /// What the links had to carry of it.
    pub bus_gb_per_second: f64,
    /// Wrong values; null where they were not checked.
    pub wrong: Option<u64>,
}
