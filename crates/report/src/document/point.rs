//! One measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Latency, Operation, Outcome, Rail, Test, Transport};

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// By what it was measured.
    pub tool: Tool,
    /// What was measured.
    pub test: Test,
    /// By which operation.
    pub operation: Operation,
    /// Over what.
    pub transport: Transport,
    /// Why by that transport.
    pub why: String,
    /// Where it was measured from.
    pub from: String,
    /// Towards whom.
    pub to: String,
    /// The paths it used.
    pub rails: Vec<Rail>,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Operations in flight on each lane.
    pub depth: u32,
    /// Lanes on each rail.
    pub lanes: u32,
    /// Both ends streamed at once.
    pub both_ways: bool,
    /// Unreliable datagrams.
    pub datagrams: bool,
    /// How long it took, without the warm-up.
    pub seconds: Option<f64>,
    /// Operations that are over.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Bytes a second.
    pub bytes_per_second: Option<f64>,
    /// Gigabits (10^9) a second.
    pub gbps: Option<f64>,
    /// Operations a second.
    pub messages_per_second: Option<f64>,
    /// How long each took.
    pub latency: Option<Spread>,
    /// CPU time of the thread that measured.
    pub cpu_seconds: Option<f64>,
    /// CPU time of the thread that served.
    pub peer_cpu_seconds: Option<f64>,
    /// The same for a gigabyte (10^9 bytes).
    pub cpu_seconds_per_gb: Option<f64>,
    /// Of the other end.
    pub peer_cpu_seconds_per_gb: Option<f64>,
    /// Datagrams that did not arrive; of what is reliable none.
    pub lost: Option<u64>,
    /// Their part of all, from 0 to 1.
    pub loss_ratio: Option<f64>,
    /// What the ports' counters, at both ends, say was sent again; null where they do not count it.
    pub retransmissions: Option<u64>,
    /// Whether the bytes that arrived are those that were sent, if that was asked.
    pub verified: Option<bool>,
    /// How far counters of the ports moved meanwhile, by name.
    pub counters: BTreeMap<String, u64>,
    /// How far those of the other end did.
    pub peer_counters: BTreeMap<String, u64>,
}

/// By what something was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// This program.
    Wirelane,
    /// `ib_write_bw` and the like.
    Perftest,
}

/// How long operations took, in nanoseconds: of writes and sends in a latency test half of there and back, else from post
/// to completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// How many were timed.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Half were shorter.
    pub p50_ns: u64,
    /// Nine in ten were shorter; perftest does not say.
    pub p90_ns: Option<u64>,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// All but one in a thousand.
    pub p99_9_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// On the average.
    pub mean_ns: f64,
    /// Jitter: the standard deviation.
    pub stdev_ns: f64,
    /// Jitter: p99 − p50, what separates an unlucky operation from a usual one.
    pub jitter_ns: u64,
    /// How they are distributed: the upper end of each step, and how many lay in it.
    pub steps: Vec<(u64, u64)>,
}

impl Point {
    /// From what was measured between two named ends, and why by this transport. Retransmissions are who knows counters' to
    /// add.
    pub fn new(outcome: &Outcome, from: &str, to: &str, why: &str) -> Point {
        let plan = &outcome.plan;
        let each_second = |number: f64| (outcome.seconds > 0.0).then(|| number / outcome.seconds);
        let bytes_per_second = each_second(outcome.bytes as f64);
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
            messages_per_second: each_second(outcome.operations as f64),
            latency: Spread::new(&outcome.latency),
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

    /// Megabytes (10^6) a second.
    pub fn megabytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second.map(|bytes| bytes / 1e6)
    }
}

impl Spread {
    /// None where nothing was timed.
    pub fn new(latency: &Latency) -> Option<Spread> {
        (latency.count > 0).then(|| Spread {
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
            steps: latency.steps.clone(),
        })
    }
}
