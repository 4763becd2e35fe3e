//! The paths used, and the counters that changed.

use std::collections::BTreeMap;

use super::group::transport;
use super::markup::Markup;
use crate::{Document, Point, Rail};

/// Each path once: devices, GID, MTU, and why it was chosen.
pub(super) fn paths(document: &Document) -> Markup {
    let mut rows: Vec<[String; 8]> = Vec::new();
    for point in &document.points {
        let none = Rail::default();
        let rails = if point.rails.is_empty() { std::slice::from_ref(&none) } else { &point.rails };
        for rail in rails {
            let row = path(point, rail);
            if rows.len() < MAX_ROWS && !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    let head = ["From", "To", "Transport", "Local port", "Peer port", "GID", "MTU and rate", "Why"];
    table("Path", &head, &rows)
}

fn path(point: &Point, rail: &Rail) -> [String; 8] {
    let mtu = rail.mtu.map(|mtu| mtu.to_string());
    let rate = rail.rate_mbps.map(|mbps| crate::number::rate(mbps as f64 / 1e3));
    let why = [point.why.as_str(), rail.why.as_str()];
    let why: Vec<&str> = why.into_iter().filter(|why| !why.is_empty()).collect();
    [
        point.from.clone(),
        point.to.clone(),
        transport(point.transport).to_owned(),
        rail.local.clone(),
        rail.peer.clone(),
        rail.gid.clone().unwrap_or_default(),
        [mtu, rate].into_iter().flatten().collect::<Vec<_>>().join(", "),
        why.join("; "),
    ]
}

/// Growth of the ports' counters over all measurements. Unchanged counters are left out.
pub(super) fn counters(document: &Document) -> Markup {
    let mut changes: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for point in &document.points {
        for (end, counters) in [&point.counters, &point.peer_counters].into_iter().enumerate() {
            for (name, by) in counters.iter().filter(|(_, by)| **by > 0) {
                let sum = &mut changes.entry(name).or_default()[end];
                *sum = sum.saturating_add(*by);
            }
        }
    }
    let row = |(name, [local, peer]): (&str, [u64; 2])| {
        let cell = |by: u64| if by == 0 { String::new() } else { grouped(by) };
        [name.to_owned(), cell(local), cell(peer)]
    };
    let rows: Vec<[String; 3]> = changes.into_iter().take(MAX_ROWS).map(row).collect();
    table("Counters that changed", &["Counter", "Local", "Peer"], &rows)
}

/// A heading and a table without empty columns; empty if there are no rows.
pub(super) fn table<const N: usize>(
    heading: &str,
    head: &[&str; N],
    rows: &[[String; N]],
) -> Markup {
    let mut table = Markup::default();
    if rows.is_empty() {
        return table;
    }
    let used = (0..N).filter(|column| rows.iter().any(|row| !row[*column].is_empty()));
    let columns: Vec<(usize, &str)> = used.map(|column| (column, class(rows, column))).collect();
    table.element("h3", &[], heading);
    table.raw("<div class=\"scroll\"><table><thead><tr>");
    for (column, class) in &columns {
        table.element("th", &[("scope", &"col"), ("class", class)], head[*column]);
    }
    table.raw("</tr></thead><tbody>");
    for row in rows {
        table.raw("<tr>");
        for (column, class) in &columns {
            table.element("td", &[("class", class)], &row[*column]);
        }
        table.raw("</tr>\n");
    }
    table.raw("</tbody></table></div>\n");
    table
}

/// Columns of numbers are aligned right; columns of sentences are wrapped.
fn class<const N: usize>(rows: &[[String; N]], column: usize) -> &'static str {
    let cells = || rows.iter().map(|row| &row[column]).filter(|cell| !cell.is_empty());
    // An address starts with a digit too.
    let is_number = |cell: &String| {
        cell.starts_with(|first: char| first.is_ascii_digit()) && !cell.contains(':')
    };
    if cells().any(|cell| cell.chars().count() > MAX_NAME_CHARS) {
        "long"
    } else if cells().all(is_number) {
        "n"
    } else {
        "w"
    }
}

/// A number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

const MAX_ROWS: usize = 200;
/// A longer text is a sentence, not a name.
const MAX_NAME_CHARS: usize = 44;
