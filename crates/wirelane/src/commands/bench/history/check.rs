//! Whether the newest runs are worse than earlier ones.

use std::path::Path;

use report::RunKind;
use report::trend::{self, Change};
use serde::Serialize;

use super::saved_runs::History;

/// A result's newest value, compared with earlier ones.
#[derive(Debug, Serialize)]
pub(super) struct Trend {
    /// ID of its run.
    pub(super) run: String,
    #[serde(flatten)]
    pub(super) change: Change,
    /// The change relative to the earlier value: 0.1 is 10 % more.
    change_ratio: f64,
    pub(super) is_regression: bool,
}

impl Trend {
    /// A regression is worse by more than `more_than` relative to before, and by more than the noise between runs.
    pub(super) fn new(run: &str, change: Change, more_than: f64) -> Trend {
        Trend {
            run: run.to_owned(),
            change_ratio: change.ratio(),
            is_regression: change.is_regression(more_than),
            change,
        }
    }
}

/// The newest value of every result that has an earlier one.
pub(super) fn newest(history: &History, last: usize, more_than: f64) -> Vec<Trend> {
    let runs: Vec<_> = history.runs.iter().map(|run| &run.document).collect();
    let baselines = history.runs.iter().filter(|run| run.is_baseline).map(|run| &run.document);
    let found = trend::newest(&runs, &baselines.collect::<Vec<_>>(), last);
    let trend =
        |(run, change): (usize, Change)| Trend::new(&history.runs[run].id, change, more_than);
    found.into_iter().map(trend).collect()
}

/// The JSON output.
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

pub(super) fn report<'a>(history: &'a History, newest: &'a [Trend]) -> Report<'a> {
    let runs = history.runs.iter().map(|run| RunReport {
        id: &run.id,
        when: &run.document.when,
        kind: run.document.kind,
        host: &run.document.host,
        peer: run.document.peer.as_deref(),
        is_baseline: run.is_baseline,
        verdict: run.document.verdict.as_ref().map(|verdict| verdict.summary.as_str()),
    });
    Report { folder: &history.folder, runs: runs.collect(), newest, skipped: &history.skipped }
}
