//! All results, in tables.

use super::facts::{grouped, table};
use super::group::transport;
use super::markup::Markup;
use crate::number;
use crate::{Collective, CollectiveResult, CollectiveRow, Document, Point};

/// A row for each measurement, or for each size of a collective operation.
pub(super) fn measurements(document: &Document) -> Markup {
    let mut measurements = Markup::default();
    measurements.append(points(&document.points));
    if let Some(run) = &document.collective {
        measurements.append(collective(run));
    }
    if let Some(matrix) = &document.matrix {
        let row = |failed: &crate::FailedPair| {
            [failed.from.clone(), failed.to.clone(), failed.why.clone()]
        };
        let rows: Vec<[String; 3]> = matrix.failed.iter().take(MAX_ROWS).map(row).collect();
        measurements.append(table(
            "Pairs that could not be measured",
            &["From", "To", "Why"],
            &rows,
        ));
    }
    measurements
}

fn points(points: &[Point]) -> Markup {
    let head = [
        "Test",
        "From",
        "To",
        "Transport",
        "Size",
        "In flight",
        "Operations",
        "Seconds",
        "Gb/s",
        "MB/s",
        "Messages/s",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "Max µs",
        "Jitter µs",
        "CPU s/GB local",
        "CPU s/GB peer",
        "Lost",
        "Retransmissions",
        "Data",
    ];
    let mut rows: Vec<[String; 22]> = points.iter().take(MAX_ROWS).map(row).collect();
    let same = take_same(&head, &mut rows);
    let mut measurements = table("All results", &head, &rows);
    if !same.is_empty() {
        measurements.element("p", &[("class", &"muted note")], format!("Same for all: {same}."));
    }
    if points.len() > MAX_ROWS {
        let text =
            format!("The first {MAX_ROWS} of {} measurements; --json has all.", points.len());
        measurements.element("p", &[("class", &"muted")], text);
    }
    measurements
}

/// Clears columns that have the same value in all rows, and returns their values as text.
fn take_same<const N: usize>(head: &[&str; N], rows: &mut [[String; N]]) -> String {
    let mut same = Vec::new();
    let columns = if rows.len() > 2 { 0..N } else { 0..0 };
    for column in columns {
        let first = rows[0][column].clone();
        if !first.is_empty() && rows.iter().all(|row| row[column] == first) {
            same.push(format!("{} {first}", head[column].to_lowercase()));
            rows.iter_mut().for_each(|row| row[column].clear());
        }
    }
    same.join(", ")
}

fn row(point: &Point) -> [String; 22] {
    let latency = point.latency.as_ref();
    let micro = |nanoseconds: Option<u64>| known(nanoseconds.map(|ns| ns as f64 / 1e3));
    let time = |measurement: fn(&crate::PointLatency) -> u64| micro(latency.map(measurement));
    let lanes = if point.lanes > 1 {
        format!("{} × {} lanes", point.depth, point.lanes)
    } else {
        point.depth.to_string()
    };
    let marks = [(point.both_ways, " both directions"), (point.datagrams, " datagrams")];
    let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    [
        format!("{} {}{marks}", point.test.name(), point.operation.name()),
        point.from.clone(),
        point.to.clone(),
        transport(point.transport).to_owned(),
        number::size(point.size_bytes),
        lanes,
        grouped(point.operations),
        known(point.seconds),
        known(point.gbps),
        known(point.megabytes_per_second()),
        point.messages_per_second.map_or(String::new(), |rate| grouped(rate as u64)),
        time(|latency| latency.p50_ns),
        micro(latency.and_then(|latency| latency.p90_ns)),
        time(|latency| latency.p99_ns),
        time(|latency| latency.p99_9_ns),
        time(|latency| latency.max_ns),
        time(|latency| latency.jitter_ns),
        known(point.cpu_seconds_per_gb),
        known(point.peer_cpu_seconds_per_gb),
        point.lost.map_or(String::new(), grouped),
        point.retransmissions.map_or(String::new(), grouped),
        point.verified.map_or(String::new(), |is_correct| {
            if is_correct { "correct".into() } else { "WRONG".into() }
        }),
    ]
}

fn collective(run: &Collective) -> Markup {
    let head = [
        "Size",
        "Type",
        "Reduction",
        "Root",
        "Out of place: µs",
        "algorithm GB/s",
        "bus GB/s",
        "wrong",
        "In place: µs",
        "algorithm GB/s",
        "bus GB/s",
        "wrong",
    ];
    let row = |row: &CollectiveRow| {
        let [time, algorithm, bus, wrong] = half(row.out_of_place);
        let [time_in, algorithm_in, bus_in, wrong_in] = half(row.in_place);
        [
            number::size(row.size_bytes),
            row.datatype.clone().unwrap_or_default(),
            row.reduction.clone().unwrap_or_default(),
            row.root.map_or(String::new(), |root| root.to_string()),
            time,
            algorithm,
            bus,
            wrong,
            time_in,
            algorithm_in,
            bus_in,
            wrong_in,
        ]
    };
    let rows: Vec<[String; 12]> = run.rows.iter().take(MAX_ROWS).map(row).collect();
    table("All results", &head, &rows)
}

fn half(half: Option<CollectiveResult>) -> [String; 4] {
    let Some(half) = half else { return Default::default() };
    [
        number::digits(half.time_us),
        number::digits(half.algorithm_gb_per_second),
        number::digits(half.bus_gb_per_second),
        half.wrong.map_or(String::new(), grouped),
    ]
}

fn known(measurement: Option<f64>) -> String {
    measurement.map_or(String::new(), number::digits)
}

const MAX_ROWS: usize = 500;
