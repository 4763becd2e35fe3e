//! The history as text.

use std::fmt::Write;

use report::Document;
use report::trend::{self, Change, Unit};

use super::LimitArgs;
use super::check::Trend;
use super::saved_runs::{History, SavedRun};
use crate::output::wrap;

/// All runs, then regressions.
pub(super) fn list(history: &History, trends: &[Trend], limit: &LimitArgs) -> String {
    if history.runs.is_empty() {
        return format!("no saved runs in {}\n", history.folder.display());
    }
    let names = ["run", "from", "to", "best", ""].map(str::to_owned);
    let rows: Vec<[String; 5]> =
        std::iter::once(names).chain(history.runs.iter().map(row)).collect();
    let mut text = wrap::table(&rows, wrap::columns());
    let worse: Vec<&Trend> = trends.iter().filter(|trend| trend.is_regression).collect();
    text.push('\n');
    if worse.is_empty() && !trends.is_empty() {
        let results = if trends.len() == 1 { "result" } else { "results" };
        let (count, limit) = (trends.len(), limit.worse_than);
        let _ = writeln!(text, "no regression above {limit} % ({count} {results} compared)");
    }
    if !worse.is_empty() {
        let _ = writeln!(text, "regressions above {} %:", limit.worse_than);
    }
    for trend in worse {
        let Change { measurement, is_baseline, .. } = &trend.change;
        let with = if *is_baseline { "the baseline" } else { "earlier runs" };
        let _ = writeln!(text, "  {}  {} ({})", trend.run, measurement.what, measurement.how);
        let _ = writeln!(text, "    {} than {with}", describe_change(&trend.change));
    }
    text
}

fn row(run: &SavedRun) -> [String; 5] {
    let Document { host, peer, .. } = &run.document;
    let mark = if run.is_baseline { "baseline" } else { "" };
    [
        run.id.clone(),
        host.clone(),
        peer.clone().unwrap_or_default(),
        best(&run.document),
        mark.to_owned(),
    ]
}

/// The best result of the kind that the run is about.
fn best(document: &Document) -> String {
    let measurements = trend::measurements(document);
    let Some(first) = measurements.first() else { return String::new() };
    let same_unit = measurements
        .iter()
        .filter(|measurement| measurement.unit == first.unit)
        .map(|measurement| measurement.value);
    let best = match first.unit {
        Unit::Nanoseconds => same_unit.reduce(f64::min),
        _ => same_unit.reduce(f64::max),
    };
    best.map_or(String::new(), |best| first.unit.format(best))
}

/// A run's results.
pub(super) fn show(id: &str, document: &Document) -> String {
    let peer = document.peer.as_ref().map_or(String::new(), |peer| format!(" → {peer}"));
    let mut text = format!("{id}  {}{peer}  {}\n", document.host, document.when);
    if let Some(verdict) = &document.verdict {
        let _ = writeln!(text, "{}", verdict.summary);
    }
    let measurements = trend::measurements(document);
    let row = |measurement: &trend::Measurement| {
        [
            measurement.what.clone(),
            measurement.unit.format(measurement.value),
            measurement.how.clone(),
        ]
    };
    let rows: Vec<_> = measurements.iter().map(row).collect();
    text + &wrap::table(&rows, wrap::columns())
}

/// The results of two runs, side by side.
pub(super) fn changes(trends: &[Trend]) -> String {
    let names = ["", "before", "after", "change", ""].map(str::to_owned);
    let row = |trend: &Trend| {
        let Change { measurement, before, .. } = &trend.change;
        let format = |value| measurement.unit.format(value);
        let mark = if trend.is_regression { "worse" } else { "" };
        [
            measurement.what.clone(),
            format(*before),
            format(measurement.value),
            percent(trend.change.ratio()),
            mark.to_owned(),
        ]
    };
    let rows: Vec<_> = std::iter::once(names).chain(trends.iter().map(row)).collect();
    wrap::table(&rows, wrap::columns())
}

/// `70.1 Gb/s after 97.2 Gb/s: 28 % less`.
fn describe_change(change: &Change) -> String {
    let (unit, ratio) = (change.measurement.unit, change.ratio());
    let word = if ratio < 0.0 { "less" } else { "more" };
    let (now, before) = (unit.format(change.measurement.value), unit.format(change.before));
    format!("{now} after {before}: {:.0} % {word}", ratio.abs() * 100.0)
}

fn percent(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}
