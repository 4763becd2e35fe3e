//! A run as text.

use std::fmt::Write;

use report::nccl::Run;
use report::{CollectiveResult, CollectiveRow, Verdict};

use crate::arguments::size;
use crate::commands::bench;
use crate::output::wrap;

/// The results and the verdict.
pub(super) fn show(run: &Run, verdict: &Verdict) -> String {
    let mut text = wrap::fit(&head(run));
    if !run.collective.rows.is_empty() {
        text.push_str(&wrap::cells(NAMES.into_iter(), WIDTH));
    }
    for row in &run.collective.rows {
        text.push_str(&wrap::cells(cells(row, part(run)).iter().map(String::as_str), WIDTH));
    }
    text.push_str(&wrap::fit(&results(run)));
    text.push_str(&bench::text::verdict(verdict));
    text
}

/// The bandwidth of the whole run, and errors.
fn results(run: &Run) -> String {
    let mut text = String::new();
    let (peak, average) = (run.peak(), run.average());
    if let (Some((row, peak)), Some(average)) = (peak, average) {
        let at = size::format(row.size_bytes as usize);
        let _ =
            writeln!(text, "bus bandwidth: average {average:.2} GB/s, peak {peak:.2} GB/s ({at})");
    }
    if let (Some(rate), Some(efficiency)) = (run.collective.link_gbps, run.collective.efficiency) {
        let _ = writeln!(text, "efficiency: {:.1} % of the ports' {rate} Gb/s", efficiency * 100.0);
    }
    for error in run.errors.iter().take(MAX_ERRORS) {
        let is_warning = error.contains("NCCL WARN") && !run.has_failed();
        let label = if is_warning { "warning" } else { "program error" };
        let _ = writeln!(text, "{label}: {error}");
    }
    text
}

fn head(run: &Run) -> String {
    let collective = &run.collective;
    let operation = collective.operation.as_deref().unwrap_or("a collective operation");
    let ranks = collective.ranks.map_or_else(String::new, |ranks| format!(", ranks: {ranks}"));
    let hosts = match collective.hosts.as_slice() {
        [] => String::new(),
        few if few.len() <= MAX_HOSTS => format!(" on {}", few.join(", ")),
        many => format!(" on {} hosts", many.len()),
    };
    let gpu = run.gpus.first().map_or_else(String::new, |gpu| format!(" ({})", gpu.name));
    format!("{operation} with {}{ranks}{hosts}{gpu}\n", collective.tool)
}

/// The percentage of the ports' rate that 1 GB/s of bus bandwidth is.
fn part(run: &Run) -> Option<f64> {
    let collective = &run.collective;
    let share = match run.operation() {
        Some(operation) => operation.port_share(collective.ranks?, run.ranks_on_a_host())?,
        None => 1.0,
    };
    Some(8.0 * share / collective.link_gbps? * 100.0)
}

fn cells(row: &CollectiveRow, part: Option<f64>) -> [String; 7] {
    let measurement = |half: Option<CollectiveResult>, pick: fn(&CollectiveResult) -> f64| {
        half.as_ref().map_or_else(|| NONE.to_owned(), |half| format!("{:.2}", pick(half)))
    };
    let wrong = |half: Option<CollectiveResult>| half.and_then(|half| half.wrong);
    let wrong = [wrong(row.out_of_place), wrong(row.in_place)].into_iter().flatten();
    let wrong = wrong.reduce(|one, other| one + other);
    let of_ports =
        part.zip(row.bus_gb_per_second()).map(|(part, bus)| format!("{:.0} %", part * bus));
    let either = row.out_of_place.or(row.in_place);
    [
        size::format(row.size_bytes as usize),
        measurement(either, |half| half.time_us),
        measurement(either, |half| half.algorithm_gb_per_second),
        measurement(row.out_of_place, |half| half.bus_gb_per_second),
        measurement(row.in_place, |half| half.bus_gb_per_second),
        of_ports.unwrap_or_else(|| NONE.to_owned()),
        wrong.map_or_else(|| NONE.to_owned(), |wrong| wrong.to_string()),
    ]
}

const NAMES: [&str; 7] = ["size", "µs", "alg GB/s", "bus GB/s", "in place", "of ports", "wrong"];
/// All columns fit 80 characters.
const WIDTH: usize = 11;
const NONE: &str = "–";
const MAX_HOSTS: usize = 8;
const MAX_ERRORS: usize = 8;
