//! What to expect of a fabric by default: notes, never failures.

use report::{Point, Test, Transport};

use super::Side;

/// Targets that were missed, and what to think of that.
pub(super) fn notes(points: &[Point], here: &Side, there: Option<&Side>) -> Vec<String> {
    let mut notes: Vec<String> = points.iter().flat_map(of_point).collect();
    let mut wrong = points.iter().filter(|point| point.verified == Some(false));
    if let Some(point) = wrong.next() {
        notes.insert(0, format!("bytes arrived that are not those sent, at {} bytes: look at the kernel's log and at memory", point.size_bytes));
    }
    if !notes.is_empty()
        && let Some(why) = excuse(points, here, there)
    {
        notes.push(why);
    }
    notes
}

fn of_point(point: &Point) -> Vec<String> {
    let mut notes = Vec::new();
    let size = point.size_bytes;
    if let (Test::Latency, Some(spread)) = (point.test, &point.latency)
        && size <= SMALL
    {
        let (most, words) = match point.transport {
            // Its providers are cards or software, and do not say which.
            Transport::Tcp | Transport::Ofi => (TCP_NS, "1 ms, the target for TCP"),
            Transport::Verbs | Transport::Shm => (RDMA_NS, "10 µs, the target for RDMA"),
        };
        if spread.p50_ns > most {
            let us = spread.p50_ns as f64 / 1e3;
            notes.push(format!("latency at {size} bytes is {us:.1} µs, more than {words}"));
        }
        if spread.jitter_ns > JITTER_NS {
            let us = spread.jitter_ns as f64 / 1e3;
            notes.push(format!(
                "jitter (p99 − p50) at {size} bytes is {us:.1} µs, more than the target of 1 µs"
            ));
        }
    }
    if let Some(ratio) = point.loss_ratio.filter(|ratio| *ratio > LOSS) {
        let percent = ratio * 100.0;
        notes.push(format!(
            "{percent:.3} % of datagrams of {size} bytes were lost, more than the target of 0.01 %"
        ));
    }
    notes
}

/// Why targets for cards do not fit here.
fn excuse(points: &[Point], here: &Side, there: Option<&Side>) -> Option<String> {
    let rails = points.iter().flat_map(|point| &point.rails);
    let mut ports = rails.filter_map(|rail| here.port(&rail.here));
    if ports.any(|port| port.is_software) {
        return Some("soft-RoCE is the CPU's work: targets are made for cards".to_owned());
    }
    let is_virtual = here.is_virtual || there.is_some_and(|side| side.is_virtual);
    is_virtual
        .then(|| "this is a virtual machine: its CPUs come and go as its host likes".to_owned())
}

/// Targets for latency are for small messages.
const SMALL: u64 = 4096;
const RDMA_NS: u64 = 10_000;
const TCP_NS: u64 = 1_000_000;
const JITTER_NS: u64 = 1000;
const LOSS: f64 = 0.0001;
