//! The results of a run that can be compared with those of others.

use serde::Serialize;

use crate::number;
use crate::{Collective, CollectiveResult, Document, Matrix, Point, Test, Transport};

/// A result of a run that can be compared with that of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// What was measured: `bandwidth of write, 64 KiB`.
    pub what: String,
    /// How: hosts, path and parameters. Two results are of the same measurement if `what` and `how` are equal.
    pub how: String,
    /// The result.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// The unit of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Gigabits (10^9) per second.
    GigabitsPerSecond,
    /// Gigabytes (10^9) per second, of a collective operation.
    GigabytesPerSecond,
    /// Operations per second.
    PerSecond,
    /// Nanoseconds: less is better.
    Nanoseconds,
}

impl Unit {
    /// A value with its unit, as text.
    pub fn format(self, value: f64) -> String {
        match self {
            Unit::GigabitsPerSecond => number::rate(value),
            Unit::GigabytesPerSecond => format!("{} GB/s", number::significant(value)),
            Unit::PerSecond => format!("{}/s", number::count(value)),
            Unit::Nanoseconds => number::time(value),
        }
    }
}

impl Measurement {
    /// Whether both are of the same measurement.
    pub fn is_like(&self, other: &Measurement) -> bool {
        self.what == other.what && self.how == other.how && self.unit == other.unit
    }
}

/// The results of a run that can be compared.
pub fn measurements(document: &Document) -> Vec<Measurement> {
    let points = document.points.iter().filter_map(of_point);
    let pairs = document.matrix.iter().filter_map(of_matrix);
    let collective = document.collective.iter().flat_map(of_collective);
    let usable =
        |measurement: &Measurement| measurement.value.is_finite() && measurement.value > 0.0;
    points.chain(pairs).chain(collective).filter(usable).collect()
}

fn of_point(point: &Point) -> Option<Measurement> {
    let latency = point.latency.as_ref().map(|latency| latency.p50_ns as f64);
    let (name, value, unit) = match point.test {
        Test::Bandwidth => ("bandwidth", point.gbps, Unit::GigabitsPerSecond),
        Test::Latency => ("latency", latency, Unit::Nanoseconds),
        Test::Rate => ("rate", point.messages_per_second, Unit::PerSecond),
    };
    let (operation, size) = (point.operation.name(), point.size_bytes);
    let what = format!("{name} of {operation}, {}", number::size(size));
    Some(Measurement { what, how: how(point), value: value?, unit })
}

/// The hosts, path and parameters that two comparable measurements share. Without ports in addresses, which the system
/// chooses.
pub(crate) fn how(point: &Point) -> String {
    let rdma = point.transport == Transport::Verbs;
    let rails = point.rails.iter().filter(|_| rdma);
    let rails: Vec<String> = rails.map(|rail| format!("{} – {}", rail.local, rail.peer)).collect();
    let mut how = format!(
        "{} → {} over {}",
        without_port(&point.from),
        without_port(&point.to),
        point.transport.name()
    );
    if rdma {
        how += &format!(" ({})", rails.join(", "));
    }
    if point.test != Test::Latency {
        how += &format!(", {} in flight, {} lanes", point.depth, point.lanes);
    }
    let marks = [
        (point.both_ways, ", both directions"),
        (point.datagrams, ", datagrams"),
        (point.tool == crate::Tool::Perftest, ", with perftest"),
    ];
    marks.iter().filter(|(is, _)| *is).for_each(|(_, mark)| how += mark);
    how
}

fn of_matrix(matrix: &Matrix) -> Option<Measurement> {
    let how = format!("between {}", matrix.hosts.join(", "));
    let what = "bandwidth, median of all pairs".to_owned();
    Some(Measurement { what, how, value: matrix.median_gbps?, unit: Unit::GigabitsPerSecond })
}

fn of_collective(run: &Collective) -> Vec<Measurement> {
    let operation = run.operation.as_deref().unwrap_or("collective");
    let ranks = run.ranks.map_or(String::new(), |ranks| format!("{ranks} ranks "));
    let how = format!("{ranks}on {}", run.hosts.join(", "));
    let measurement = |what: String, value: f64| {
        let unit = Unit::GigabytesPerSecond;
        Measurement { what, how: how.clone(), value, unit }
    };
    let average = run.average_bus_gb_per_second.into_iter();
    let average =
        average.map(|value| measurement(format!("bus bandwidth of {operation}, average"), value));
    let rows = run.rows.iter().filter_map(|row| {
        let halves = [row.out_of_place, row.in_place].into_iter().flatten();
        let best = halves
            .map(|CollectiveResult { bus_gb_per_second, .. }| bus_gb_per_second)
            .reduce(f64::max)?;
        let what = format!("bus bandwidth of {operation}, {}", number::size(row.size_bytes));
        Some(measurement(what, best))
    });
    average.chain(rows).collect()
}

/// `node1:7473` is the host `node1`; an IPv6 address without brackets stays whole.
fn without_port(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|letter| letter.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_removed_from_addresses() {
        assert_eq!(without_port("node1:7473"), "node1");
        assert_eq!(without_port("[fe80::1]:7473"), "[fe80::1]");
        assert_eq!(without_port("fe80::1"), "fe80::1");
        assert_eq!(without_port("node1"), "node1");
    }
}
