//! Evaluates measured results: the expected bandwidth of the path, the reached share of it, and likely bottlenecks
//! with evidence.
//!
//! The expected bandwidth follows from the ports, MTU and PCIe links of both ends ([`HostFacts`]). On the
//! same host there is no link rate to compare with, and no verdict. Start at [`evaluate`].

mod bottlenecks;
mod bounds;
mod counters;
mod host_facts;
mod mesh;
pub mod nccl;
mod targets;

pub use counters::retransmissions;
pub use host_facts::{Hop, HostFacts, HostFinding, NetdevFacts, PortFacts};
pub use mesh::{PairResult, matrix, rounds};

use report::{Bound, Point, Test, Transport, Verdict};

/// The verdict on a run: its best point, compared with what both ends should reach.
pub fn evaluate(points: &[Point], local: &HostFacts, peer: Option<&HostFacts>) -> Verdict {
    let Some(best) = best(points) else {
        return Verdict { summary: "nothing was measured".to_owned(), ..Verdict::default() };
    };
    let mut notes = targets::notes(points, local, peer);
    if best.test == Test::Latency {
        return Verdict { summary: latency(best), notes, ..Verdict::default() };
    }
    let bounds = bounds::find(best, local, peer);
    let expected_gbps = bounds.first().map(|bound| bound.gbps);
    let ratio = expected_gbps.zip(best.gbps).map(|(should, reached)| reached / should);
    if expected_gbps.is_none() {
        notes.push(no_rate(best.transport).to_owned());
    }
    let bottlenecks = bottlenecks::find(best, &bounds, ratio, local, peer);
    Verdict {
        summary: bandwidth(best, bounds.first(), ratio),
        expected_gbps,
        bounds,
        reached_gbps: best.gbps,
        ratio,
        bottlenecks,
        notes,
        expectation: None,
    }
}

/// The point with the highest bandwidth, or the lowest latency.
pub fn best(points: &[Point]) -> Option<&Point> {
    let latency = |point: &Point| point.latency.as_ref().map_or(u64::MAX, |latency| latency.p50_ns);
    let gbps = |point: &Point| point.gbps.unwrap_or(0.0);
    match points.first()?.test {
        Test::Latency => points.iter().min_by_key(|point| latency(point)),
        Test::Bandwidth | Test::Rate => {
            points.iter().max_by(|one, other| gbps(one).total_cmp(&gbps(other)))
        }
    }
}

/// The bandwidth; in rate tests also the message rate.
fn reached(best: &Point) -> String {
    let gbps = best.gbps.unwrap_or(0.0);
    match (best.test, best.messages_per_second) {
        (Test::Rate, Some(rate)) => {
            format!("{:.3} million operations per second, {gbps:.2} Gb/s", rate / 1e6)
        }
        _ => format!("{gbps:.2} Gb/s"),
    }
}

fn bandwidth(best: &Point, bound: Option<&Bound>, ratio: Option<f64>) -> String {
    let reached = reached(best);
    match (bound, ratio) {
        (Some(bound), Some(ratio)) => format!(
            "{reached}, {:.0} % of the {:.2} Gb/s expected of {}{}",
            ratio * 100.0,
            bound.gbps,
            bound.what,
            if ratio < GOOD { "" } else { ": OK" }
        ),
        _ => reached,
    }
}

fn latency(best: &Point) -> String {
    match &best.latency {
        Some(latency) => format!(
            "p50 {:.2} µs, p99 {:.2} µs, at {} bytes",
            latency.p50_ns as f64 / 1e3,
            latency.p99_ns as f64 / 1e3,
            best.size_bytes
        ),
        None => "no latency was measured".to_owned(),
    }
}

fn no_rate(transport: Transport) -> &'static str {
    match transport {
        Transport::Shm => "same host: no link rate to compare with",
        Transport::Tcp => "the rate of the link is not known: nothing to compare with",
        Transport::Ofi => "libfabric reports no link rate: nothing to compare with",
        Transport::Verbs => "the ports report no link rate: nothing to compare with",
    }
}

/// From this share of the expected bandwidth on, a result is OK.
const GOOD: f64 = 0.9;

#[cfg(test)]
mod tests;
