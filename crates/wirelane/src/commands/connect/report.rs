//! The report of `connect`, as text and as JSON.

use std::fmt::Write;

use fabric::link::{Event, LinkStatus, PortReport, RailReport};
use serde::Serialize;

use super::measure::{Bandwidth, Latency, Measurement};
use crate::arguments::size;
use crate::output;

/// The JSON object.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) link: LinkStatus,
    /// `null` with --no-measure.
    pub(super) measurement: Option<Measurement>,
}

impl Answer {
    /// As text.
    pub(super) fn text(&self) -> String {
        let LinkStatus { rails, left_out, events, .. } = &self.link;
        let mut text = head(&self.link);
        section(&mut text, "rails", rails.iter().map(rail));
        section(&mut text, "not used", left_out.iter().cloned());
        section(&mut text, "measured", self.measurement.iter().flat_map(measurements));
        section(&mut text, "events", events.iter().map(event));
        text
    }
}

/// An event as a line.
pub(super) fn event(event: &Event) -> String {
    let Event { at, what, rail, why } = event;
    let rail = if rail.is_empty() { String::new() } else { format!("{rail}: ") };
    format!("{:8.3} s  {:<17}  {rail}{why}", at, what.name())
}

fn head(link: &LinkStatus) -> String {
    let encrypted = match link.encrypted {
        true => "control connection encrypted",
        false => "not encrypted",
    };
    let transport = match link.transport {
        Some(transport) => format!("{transport}: {}", link.why),
        None => format!("none: {}", link.why),
    };
    output::columns(&[
        ["peer".to_owned(), format!("{} (host {})", link.peer, link.host)],
        ["identity".to_owned(), format!("{}; {encrypted}", link.identity)],
        ["policy".to_owned(), link.policy.to_owned()],
        ["state".to_owned(), link.state.to_owned()],
        ["transport".to_owned(), transport],
    ])
}

/// A heading and its lines, if there are any.
fn section(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        text.push_str(heading);
        text.push('\n');
    }
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
}

fn rail(rail: &RailReport) -> String {
    let RailReport { name, transport, state, why, .. } = rail;
    let in_use = if rail.in_use { ", in use" } else { "" };
    let name = if name == transport { String::new() } else { format!(" {name}") };
    let mut text = format!("{transport}{name}  {state}{in_use}  {why}");
    for (whose, port) in [("ours", &rail.ours), ("theirs", &rail.theirs)] {
        if let Some(port) = port {
            let _ = write!(text, "\n    {whose}  {}", port_line(port));
        }
    }
    text
}

fn port_line(port: &PortReport) -> String {
    let PortReport { device, port: number, gid, mtu, rate_mbps } = port;
    format!("{device} port {number}  GID {gid}  MTU {mtu}  {} Gb/s", *rate_mbps as f64 / 1e3)
}

fn measurements(measured: &Measurement) -> Vec<String> {
    let Measurement { write_latency, message_round_trip, write_bandwidth, read_bandwidth } =
        measured;
    vec![
        latency("write", write_latency),
        latency("round trip", message_round_trip),
        bandwidth("writes", write_bandwidth),
        bandwidth("reads", read_bandwidth),
    ]
}

fn latency(what: &str, measurement: &Latency) -> String {
    let Latency { bytes, operations, p50_ns, p99_ns } = measurement;
    let what = format!("{} {what}", size::format(*bytes));
    let (median, p99) = (time(*p50_ns), time(*p99_ns));
    format!("{what:<22}  p50 {median}  p99 {p99}  ({operations} samples)")
}

fn bandwidth(what: &str, measurement: &Bandwidth) -> String {
    let Bandwidth { bytes, in_flight, bytes_per_second, .. } = measurement;
    let what = format!("{} {what}", size::format(*bytes));
    let (bytes, bits) = (bytes_per_second / 1e9, bytes_per_second * 8.0 / 1e9);
    format!("{what:<22}  {bytes:.2} GB/s, {bits:.1} Gb/s ({in_flight} in flight)")
}

fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000 => format!("{nanoseconds} ns"),
        10_000..10_000_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        _ => format!("{:.1} ms", nanoseconds as f64 / 1e6),
    }
}
