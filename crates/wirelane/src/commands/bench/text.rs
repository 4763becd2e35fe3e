//! Measurements as text.

use std::fmt::Write;

use report::{Point, PointLatency, Rail, Test, Transport, Verdict};

use super::run::PrintedPoint;
use crate::arguments::size;
use crate::output::wrap;

/// A measurement as a row; before the first, a title and the names of columns.
pub(super) fn rows(printed: PrintedPoint<'_>) -> String {
    let PrintedPoint { point, is_first } = printed;
    let mut text = String::new();
    if is_first {
        text.push_str(&wrap::fit(&head(point)));
        text.push_str(&line(names(point.test).iter().copied()));
    }
    text.push_str(&line(cells(point).iter().map(String::as_str)));
    if point.verified == Some(false) {
        let failed = "  verification failed: the received data differs from the sent data\n";
        text.push_str(&wrap::fit(failed));
    }
    text
}

/// The test, the transport and its rails.
fn head(point: &Point) -> String {
    let mut text = format!(
        "{} of {}s over {}, {} → {}: {}\n",
        match point.test {
            Test::Bandwidth => "bandwidth",
            Test::Latency => "latency",
            Test::Rate => "rate",
        },
        point.operation.name(),
        transport(point),
        point.from,
        point.to,
        point.why
    );
    for rail in point.rails.iter().filter(|rail| rail.mtu.is_some()) {
        let _ = writeln!(text, "  {}", rail_line(rail));
    }
    text
}

fn transport(point: &Point) -> &'static str {
    match (point.transport, point.datagrams) {
        (Transport::Verbs, true) => "RDMA (datagrams)",
        (Transport::Verbs, false) => "RDMA",
        (Transport::Ofi, _) => "libfabric",
        (Transport::Shm, _) => "shared memory",
        (Transport::Tcp, _) => "TCP",
    }
}

/// A rail: ports, GID, MTU, rate, and why it was chosen.
pub(super) fn rail_line(rail: &Rail) -> String {
    let mut text = format!("{} – {}", rail.local, rail.peer);
    if let Some(gid) = &rail.gid {
        let _ = write!(text, ", GID {gid}");
    }
    if let Some(mtu) = rail.mtu {
        let _ = write!(text, ", MTU {mtu}");
    }
    if let Some(mbps) = rail.rate_mbps {
        let _ = write!(text, ", {} Gb/s", mbps as f64 / 1e3);
    }
    let _ = write!(text, " ({})", rail.why);
    text
}

fn names(test: Test) -> &'static [&'static str] {
    match test {
        Test::Latency => &[
            "size",
            "operations",
            "min µs",
            "p50 µs",
            "p90 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "p99−p50",
            "stdev µs",
        ],
        Test::Bandwidth | Test::Rate => &[
            "size",
            "operations",
            "Gb/s",
            "MB/s",
            "msg/s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "jitter µs",
            "CPU s/GB",
            "peer s/GB",
        ],
    }
}

fn cells(point: &Point) -> Vec<String> {
    let mut cells = vec![size::format(point.size_bytes as usize), point.operations.to_string()];
    let time = |pick: fn(&PointLatency) -> Option<u64>| {
        let ns = point.latency.as_ref().and_then(pick);
        ns.map_or_else(|| NONE.to_owned(), |ns| format!("{:.2}", ns as f64 / 1e3))
    };
    let measurement = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
    };
    if point.test == Test::Latency {
        cells.extend([
            time(|latency| Some(latency.min_ns)),
            time(|latency| Some(latency.p50_ns)),
            time(|latency| latency.p90_ns),
            time(|latency| Some(latency.p99_ns)),
            time(|latency| Some(latency.p99_9_ns)),
            time(|latency| Some(latency.max_ns)),
            time(|latency| Some(latency.jitter_ns)),
            measurement(point.latency.as_ref().map(|latency| latency.stdev_ns / 1e3), 2),
        ]);
        return cells;
    }
    cells.extend([
        measurement(point.gbps, 3),
        measurement(point.megabytes_per_second(), 1),
        measurement(point.messages_per_second, 0),
        time(|latency| Some(latency.p50_ns)),
        time(|latency| Some(latency.p99_ns)),
        time(|latency| Some(latency.p99_9_ns)),
        time(|latency| Some(latency.max_ns)),
        time(|latency| Some(latency.jitter_ns)),
        measurement(point.cpu_seconds_per_gb, 3),
        measurement(point.peer_cpu_seconds_per_gb, 3),
    ]);
    cells
}

/// Columns of fixed width, so that rows can be printed one by one.
fn line<'c>(cells: impl Iterator<Item = &'c str>) -> String {
    wrap::cells(cells, WIDTH)
}

/// The verdict, with bounds and likely bottlenecks.
pub(super) fn verdict(verdict: &Verdict) -> String {
    let mut text = format!("\n{}\n", verdict.summary);
    for bound in verdict.bounds.iter().take(4) {
        let _ = writeln!(text, "  {:.2} Gb/s  {} ({})", bound.gbps, bound.what, bound.evidence);
    }
    for bottleneck in &verdict.bottlenecks {
        let _ = writeln!(text, "likely bottleneck: {} ({})", bottleneck.what, bottleneck.evidence);
        if let Some(fix) = &bottleneck.fix {
            let _ = writeln!(text, "  {fix}");
        }
    }
    for note in &verdict.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(expectation) = &verdict.expectation {
        let met = if expectation.met { "met" } else { "not met" };
        let _ =
            writeln!(text, "expected {}: {met} ({})", expectation.expected, expectation.reached);
    }
    wrap::fit(&text)
}

const WIDTH: usize = 12;
const NONE: &str = "–";
