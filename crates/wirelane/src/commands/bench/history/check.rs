//! Whether the newest runs are worse than those before.

use std::path::Path;

use report::RunKind;
use report::trend::{self, Change};
use serde::Serialize;

use super::store::Past;

/// A result's newest value beside what it was before.
#[derive(Debug, Serialize)]
pub(super) struct Trend {
    /// The run it is of.
    pub(super) run: String,
    #[serde(flatten)]
    pub(super) change: Change,
    /// The change as a part of what was before: 0.1 is a tenth more.
    change_ratio: f64,
    pub(super) is_regression: bool,
}

impl Trend {
    /// Worse by more than a part of what was before, and by more than runs differ by anyway, is a regression.
    pub(super) fn new(run: &str, change: Change, more_than: f64) -> Trend {
        Trend {
            run: run.to_owned(),
            change_ratio: change.part(),
            is_regression: change.is_regression(more_than),
            change,
        }
    }
}

/// The newest value of every result that there is something to compare with.
pub(super) fn newest(past: &Past, last: usize, more_than: f64) -> Vec<Trend> {
    let runs: Vec<_> = past.runs.iter().map(|run| &run.document).collect();
    let baselines = past.runs.iter().filter(|run| run.is_baseline).map(|run| &run.document);
    let found = trend::newest(&runs, &baselines.collect::<Vec<_>>(), last);
    let trend = |(run, change): (usize, Change)| Trend::new(&past.runs[run].id, change, more_than);
    found.into_iter().map(trend).collect()
}

/// The JSON object.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    folder: &'a Path,
    runs: Vec<RunReport<'a>>,
    newest: &'a [Trend],
    skipped: &'a [String],
}

#[derive(Debug, Serialize)]
struct RunReport<'a> {
    id: &'a str,
    when: &'a str,
    kind: RunKind,
    host: &'a str,
    peer: Option<&'a str>,
    is_baseline: bool,
    verdict: Option<&'a str>,
}

pub(super) fn report<'a>(past: &'a Past, newest: &'a [Trend]) -> Report<'a> {
    let runs = past.runs.iter().map(|run| RunReport {
        id: &run.id,
        when: &run.document.when,
        kind: run.document.kind,
        host: &run.document.host,
        peer: run.document.peer.as_deref(),
        is_baseline: run.is_baseline,
        verdict: run.document.verdict.as_ref().map(|verdict| verdict.summary.as_str()),
    });
    Report { folder: &past.folder, runs: runs.collect(), newest, skipped: &past.skipped }
}
