//! One measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Latency, Operation, Outcome, Rail, Test, Transport};

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The program that measured.
    pub tool: Tool,
    /// The test.
    pub test: Test,
    /// The operation.
    pub operation: Operation,
    /// The transport.
    pub transport: Transport,
    /// Why that transport was used.
    pub why: String,
    /// The host that measured.
    pub from: String,
    /// The peer.
    pub to: String,
    /// The paths used.
    pub rails: Vec<Rail>,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Operations in flight on each lane.
    pub depth: u32,
    /// Lanes on each rail.
    pub lanes: u32,
    /// Both ends sent at the same time.
    pub both_ways: bool,
    /// Unreliable datagrams.
    pub datagrams: bool,
    /// Duration without the warm-up.
    pub seconds: Option<f64>,
    /// Completed operations.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Gigabits (10^9) per second.
    pub gbps: Option<f64>,
    /// Operations per second.
    pub messages_per_second: Option<f64>,
    /// Latencies of operations.
    pub latency: Option<PointLatency>,
    /// CPU time of the local thread.
    pub cpu_seconds: Option<f64>,
    /// CPU time of the peer's thread.
    pub peer_cpu_seconds: Option<f64>,
    /// Local CPU time per gigabyte (10^9 bytes).
    pub cpu_seconds_per_gb: Option<f64>,
    /// The peer's CPU time per gigabyte.
    pub peer_cpu_seconds_per_gb: Option<f64>,
    /// Datagrams lost; null for reliable transports.
    pub lost: Option<u64>,
    /// Lost datagrams as a share of all, from 0 to 1.
    pub loss_ratio: Option<f64>,
    /// Retransmissions counted by the ports at both ends; null if they do not count them.
    pub retransmissions: Option<u64>,
    /// Whether the received data is equal to the sent data, if that was requested.
    pub verified: Option<bool>,
    /// Growth of the local ports' counters during the measurement, by name.
    pub counters: BTreeMap<String, u64>,
    /// Growth of the peer's counters.
    pub peer_counters: BTreeMap<String, u64>,
}

/// A program that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// This program.
    Wirelane,
    /// `ib_write_bw` and the like.
    Perftest,
}

/// Latencies in nanoseconds: for writes and sends in a latency test half of the round-trip time, else from post to
/// completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointLatency {
    /// Number of samples.
    pub count: u64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile; null for perftest.
    pub p90_ns: Option<u64>,
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
    /// Jitter: p99 − p50.
    pub jitter_ns: u64,
    /// Histogram: the upper bound of each bucket, and its number of samples.
    #[serde(alias = "steps")]
    pub buckets: Vec<(u64, u64)>,
}

impl Point {
    /// The point of a measurement between two named hosts. The caller adds retransmissions, which depend on the
    /// counters' meaning.
    pub fn new(outcome: &Outcome, from: &str, to: &str, why: &str) -> Point {
        let plan = &outcome.plan;
        let per_second = |number: f64| (outcome.seconds > 0.0).then(|| number / outcome.seconds);
        let bytes_per_second = per_second(outcome.bytes as f64);
        let sent = outcome.operations.max(outcome.lost.unwrap_or(0)).max(1);
        Point {
            tool: Tool::Wirelane,
            test: plan.test,
            operation: plan.operation,
            transport: plan.transport,
            why: why.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            rails: outcome.rails.clone(),
            size_bytes: plan.size,
            depth: plan.depth,
            lanes: plan.lanes,
            both_ways: plan.both_ways,
            datagrams: plan.datagrams,
            seconds: Some(outcome.seconds),
            operations: outcome.operations,
            bytes: outcome.bytes,
            bytes_per_second,
            gbps: bytes_per_second.map(|bytes| bytes * 8.0 / 1e9),
            messages_per_second: per_second(outcome.operations as f64),
            latency: PointLatency::new(&outcome.latency),
            cpu_seconds: Some(outcome.cpu_seconds),
            peer_cpu_seconds: Some(outcome.peer_cpu_seconds),
            cpu_seconds_per_gb: outcome.cpu_per_gb(),
            peer_cpu_seconds_per_gb: outcome.peer_cpu_per_gb(),
            lost: outcome.lost,
            loss_ratio: outcome.lost.map(|lost| lost as f64 / sent as f64),
            retransmissions: None,
            verified: outcome.verified,
            counters: outcome.counters.clone(),
            peer_counters: outcome.peer_counters.clone(),
        }
    }

    /// Megabytes (10^6) per second.
    pub fn megabytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second.map(|bytes| bytes / 1e6)
    }
}

impl PointLatency {
    /// `None` if there are no samples.
    pub fn new(latency: &Latency) -> Option<PointLatency> {
        (latency.count > 0).then(|| PointLatency {
            count: latency.count,
            min_ns: latency.min_ns,
            p50_ns: latency.p50_ns,
            p90_ns: Some(latency.p90_ns),
            p99_ns: latency.p99_ns,
            p99_9_ns: latency.p99_9_ns,
            max_ns: latency.max_ns,
            mean_ns: latency.mean_ns,
            stdev_ns: latency.stdev_ns,
            jitter_ns: latency.jitter_ns(),
            buckets: latency.buckets.clone(),
        })
    }
}
