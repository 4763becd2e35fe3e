//! Every pair of several hosts, as heat maps.

use super::markup::Markup;
use super::plot::{Caption, Cell, Heat};
use crate::number;
use crate::{Document, Matrix};

/// Bandwidth and latency of all pairs.
pub(super) fn plots(document: &Document) -> Markup {
    let mut plots = Markup::default();
    let Some(matrix) = &document.matrix else { return plots };
    if matrix.hosts.is_empty() {
        return plots;
    }
    plots.append(heat(matrix, &matrix.gbps, &BANDWIDTH));
    plots.append(heat(matrix, &matrix.latency_us, &LATENCY));
    plots
}

/// The kind of values in the cells.
struct MatrixKind {
    plot: &'static str,
    title: &'static str,
    cell_text: fn(f64) -> String,
    with_unit: fn(f64) -> String,
    more_is_better: bool,
    ends: [&'static str; 2],
}

const BANDWIDTH: MatrixKind = MatrixKind {
    plot: "mesh",
    title: "Bandwidth of every pair, in Gb/s",
    cell_text: number::digits,
    with_unit: number::rate,
    more_is_better: true,
    ends: ["far below the median", "above"],
};

const LATENCY: MatrixKind = MatrixKind {
    plot: "mesh-latency",
    title: "Latency of every pair, in µs",
    cell_text: number::digits,
    with_unit: |microseconds| number::time(microseconds * 1e3),
    more_is_better: false,
    ends: ["far slower than the median", "faster"],
};

fn heat(matrix: &Matrix, measurements: &[Vec<Option<f64>>], kind: &MatrixKind) -> Markup {
    let hosts = &matrix.hosts[..matrix.hosts.len().min(MAX_HOSTS)];
    let mut known: Vec<f64> = measurements.iter().flatten().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let Some(median) = known.get(known.len() / 2).copied() else { return Markup::default() };
    let measurement =
        |from: usize, to: usize| measurements.get(from).and_then(|row| *row.get(to)?);
    let cell = |from: usize, to: usize| match measurement(from, to) {
        Some(measurement) => Cell::Measurement {
            text: (kind.cell_text)(measurement),
            tooltip: format!("{} → {}: {}", hosts[from], hosts[to], (kind.with_unit)(measurement)),
            ratio: if kind.more_is_better { measurement / median } else { median / measurement },
        },
        None => failure(matrix, &hosts[from], &hosts[to]).map_or(Cell::Blank, Cell::Failed),
    };
    let row = |from: usize| (0..hosts.len()).map(|to| cell(from, to)).collect();
    let mut about = format!("The median is {}", (kind.with_unit)(median));
    if let (Some(low), Some(high)) = (known.first(), known.last()) {
        about += &format!(
            "; pairs range from {} to {}.",
            (kind.with_unit)(*low),
            (kind.with_unit)(*high)
        );
    }
    if hosts.len() < matrix.hosts.len() {
        about += &format!(" The first {MAX_HOSTS} of {} hosts are shown.", matrix.hosts.len());
    }
    Heat {
        caption: Caption { plot: kind.plot, title: kind.title.to_owned(), about },
        names: hosts,
        cells: (0..hosts.len()).map(row).collect(),
        ends: kind.ends,
    }
    .render()
}

fn failure(matrix: &Matrix, from: &str, to: &str) -> Option<String> {
    let failed = matrix.failed.iter().find(|failed| failed.from == from && failed.to == to)?;
    Some(failed.why.clone())
}

/// The largest mesh that fits the page.
const MAX_HOSTS: usize = 40;
