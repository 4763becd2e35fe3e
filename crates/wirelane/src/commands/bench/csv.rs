//! Measurements as comma-separated values (RFC 4180).

use report::Point;

use super::run::PrintedPoint;

/// A measurement as a row; before the first, the names of columns.
pub(super) fn rows(printed: PrintedPoint<'_>) -> String {
    let mut text = String::new();
    if printed.is_first {
        text.push_str(&line(COLUMNS.iter().map(|(name, _)| (*name).to_owned())));
    }
    text.push_str(&line(COLUMNS.iter().map(|(_, value)| value(printed.point))));
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| quoted(&cell)).collect();
    cells.join(",") + "\n"
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// Empty if unknown.
fn number<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

type Column = (&'static str, fn(&Point) -> String);

#[rustfmt::skip]
const COLUMNS: &[Column] = &[
    ("test", |point| point.test.name().to_owned()),
    ("operation", |point| point.operation.name().to_owned()),
    ("transport", |point| point.transport.name().to_owned()),
    ("from", |point| point.from.clone()),
    ("to", |point| point.to.clone()),
    ("rails", |point| point.rails.iter().map(|rail| format!("{} - {}", rail.local, rail.peer)).collect::<Vec<_>>().join("; ")),
    ("size_bytes", |point| point.size_bytes.to_string()),
    ("depth", |point| point.depth.to_string()),
    ("lanes", |point| point.lanes.to_string()),
    ("seconds", |point| number(point.seconds)),
    ("operations", |point| point.operations.to_string()),
    ("gbps", |point| number(point.gbps)),
    ("bytes_per_second", |point| number(point.bytes_per_second)),
    ("messages_per_second", |point| number(point.messages_per_second)),
    ("min_ns", |point| number(point.latency.as_ref().map(|latency| latency.min_ns))),
    ("p50_ns", |point| number(point.latency.as_ref().map(|latency| latency.p50_ns))),
    ("p90_ns", |point| number(point.latency.as_ref().and_then(|latency| latency.p90_ns))),
    ("p99_ns", |point| number(point.latency.as_ref().map(|latency| latency.p99_ns))),
    ("p99_9_ns", |point| number(point.latency.as_ref().map(|latency| latency.p99_9_ns))),
    ("max_ns", |point| number(point.latency.as_ref().map(|latency| latency.max_ns))),
    ("stdev_ns", |point| number(point.latency.as_ref().map(|latency| latency.stdev_ns))),
    ("jitter_ns", |point| number(point.latency.as_ref().map(|latency| latency.jitter_ns))),
    ("cpu_seconds_per_gb", |point| number(point.cpu_seconds_per_gb)),
    ("peer_cpu_seconds_per_gb", |point| number(point.peer_cpu_seconds_per_gb)),
    ("lost", |point| number(point.lost)),
    ("retransmissions", |point| number(point.retransmissions)),
    ("verified", |point| number(point.verified)),
];
