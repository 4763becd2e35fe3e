//! Whether a measured result is normal: what the path should give, what part of that was reached, and what likely limits it,
//! with evidence.
//!
//! What it should give is worked out from what both ends tell of themselves ([`Side`]): ports, MTU, PCIe links. On the
//! same host there is no link rate to compare with, and no verdict. Start at [`judge`].

mod caps;
mod counters;
mod likely;
mod mesh;
pub mod nccl;
mod side;
mod targets;

pub use counters::retransmissions;
pub use mesh::{Measured, matrix, rounds};
pub use side::{Hop, NetSide, PortSide, Side, Trouble};

use report::{Cap, Point, Test, Transport, Verdict};

/// The verdict on a run. The best point says what was reached; what is known of both ends, what should be.
pub fn judge(points: &[Point], here: &Side, there: Option<&Side>) -> Verdict {
    let Some(best) = best(points) else {
        return Verdict { summary: "nothing was measured".to_owned(), ..Verdict::default() };
    };
    let mut notes = targets::notes(points, here, there);
    if best.test == Test::Latency {
        return Verdict { summary: latency(best), notes, ..Verdict::default() };
    }
    let caps = caps::of(best, here, there);
    let should_give_gbps = caps.first().map(|cap| cap.gbps);
    let part = should_give_gbps.zip(best.gbps).map(|(should, reached)| reached / should);
    if should_give_gbps.is_none() {
        notes.push(no_rate(best.transport).to_owned());
    }
    let likely = likely::of(best, &caps, part, here, there);
    Verdict {
        summary: bandwidth(best, caps.first(), part),
        should_give_gbps,
        caps,
        reached_gbps: best.gbps,
        part,
        likely,
        notes,
        expectation: None,
    }
}

/// The most bandwidth, or the least latency.
pub fn best(points: &[Point]) -> Option<&Point> {
    let latency = |point: &Point| point.latency.as_ref().map_or(u64::MAX, |spread| spread.p50_ns);
    let gbps = |point: &Point| point.gbps.unwrap_or(0.0);
    match points.first()?.test {
        Test::Latency => points.iter().min_by_key(|point| latency(point)),
        Test::Bandwidth | Test::Rate => {
            points.iter().max_by(|one, other| gbps(one).total_cmp(&gbps(other)))
        }
    }
}

/// Of many small messages it is their number that counts.
fn reached(best: &Point) -> String {
    let gbps = best.gbps.unwrap_or(0.0);
    match (best.test, best.messages_per_second) {
        (Test::Rate, Some(rate)) => {
            format!("{:.3} million operations a second, {gbps:.2} Gb/s", rate / 1e6)
        }
        _ => format!("{gbps:.2} Gb/s"),
    }
}

fn bandwidth(best: &Point, cap: Option<&Cap>, part: Option<f64>) -> String {
    let reached = reached(best);
    match (cap, part) {
        (Some(cap), Some(part)) => format!(
            "{reached}, {:.0} % of the {:.2} Gb/s that {} should give{}",
            part * 100.0,
            cap.gbps,
            cap.what,
            if part < GOOD { "" } else { ": as it should be" }
        ),
        _ => reached,
    }
}

fn latency(best: &Point) -> String {
    match &best.latency {
        Some(spread) => format!(
            "p50 {:.2} µs, p99 {:.2} µs, at {} bytes",
            spread.p50_ns as f64 / 1e3,
            spread.p99_ns as f64 / 1e3,
            best.size_bytes
        ),
        None => "nothing was timed".to_owned(),
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

/// From here on a result is as it should be.
const GOOD: f64 = 0.9;

#[cfg(test)]
mod tests;
