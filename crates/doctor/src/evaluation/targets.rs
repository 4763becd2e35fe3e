//! Default targets for latency, jitter and loss: missed ones are notes, never failures.

use report::{Point, Test, Transport};

use super::HostFacts;

/// Targets that were missed, and why they may not apply.
pub(super) fn notes(points: &[Point], local: &HostFacts, peer: Option<&HostFacts>) -> Vec<String> {
    let mut notes: Vec<String> = points.iter().flat_map(missed_targets).collect();
    let mut corrupted = points.iter().filter(|point| point.verified == Some(false));
    if let Some(point) = corrupted.next() {
        let size = point.size_bytes;
        notes.insert(
            0,
            format!("received data differs from sent data, at {size} bytes: check the kernel log and memory"),
        );
    }
    if !notes.is_empty()
        && let Some(why) = why_not_applicable(points, local, peer)
    {
        notes.push(why);
    }
    notes
}

fn missed_targets(point: &Point) -> Vec<String> {
    let mut notes = Vec::new();
    let size = point.size_bytes;
    if let (Test::Latency, Some(latency)) = (point.test, &point.latency)
        && size <= SMALL_BYTES
    {
        let (max_ns, text) = match point.transport {
            // Providers of ofi are hardware or software, and do not report which.
            Transport::Tcp | Transport::Ofi => (TCP_NS, "1 ms, the target for TCP"),
            Transport::Verbs | Transport::Shm => (RDMA_NS, "10 µs, the target for RDMA"),
        };
        if latency.p50_ns > max_ns {
            let us = latency.p50_ns as f64 / 1e3;
            notes.push(format!("latency at {size} bytes is {us:.1} µs, more than {text}"));
        }
        if latency.jitter_ns > MAX_JITTER_NS {
            let us = latency.jitter_ns as f64 / 1e3;
            notes.push(format!(
                "jitter (p99 − p50) at {size} bytes is {us:.1} µs, more than the target of 1 µs"
            ));
        }
    }
    if let Some(ratio) = point.loss_ratio.filter(|ratio| *ratio > MAX_LOSS) {
        let percent = ratio * 100.0;
        notes.push(format!(
            "{percent:.3} % of datagrams of {size} bytes were lost, more than the target of 0.01 %"
        ));
    }
    notes
}

/// Why targets for hardware do not apply here.
fn why_not_applicable(
    points: &[Point],
    local: &HostFacts,
    peer: Option<&HostFacts>,
) -> Option<String> {
    let rails = points.iter().flat_map(|point| &point.rails);
    let mut ports = rails.filter_map(|rail| local.port(&rail.local));
    if ports.any(|port| port.is_software) {
        return Some("soft-RoCE is software: the targets are for hardware".to_owned());
    }
    let is_virtual = local.is_virtual || peer.is_some_and(|facts| facts.is_virtual);
    is_virtual.then(|| "this is a virtual machine: its host schedules its CPUs".to_owned())
}

/// The targets for latency are for small messages.
const SMALL_BYTES: u64 = 4096;
const RDMA_NS: u64 = 10_000;
const TCP_NS: u64 = 1_000_000;
const MAX_JITTER_NS: u64 = 1000;
const MAX_LOSS: f64 = 0.0001;
