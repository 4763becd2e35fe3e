//! `wirelane bench history`: earlier results, and regressions.

mod check;
mod saved_runs;
mod text;

use std::path::PathBuf;

use ::report::trend;
use clap::{Args, Subcommand};

use super::report;
use crate::output;
use crate::output::{Exit, Failure};
use check::Trend;
pub(super) use saved_runs::SavedRuns;
use saved_runs::{History, SavedRun};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    list: ListArgs,

    #[command(subcommand)]
    command: Option<HistoryCommand>,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    /// Show the results of a run, or its JSON document
    Show(ShowArgs),
    /// Compare the results of two runs
    Compare(CompareArgs),
    /// Set or clear the run that later ones are compared with
    Baseline(BaselineArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    limit: LimitArgs,

    /// Without a baseline, compare with the median of this many earlier runs
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    last: u16,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What counts as a regression.
#[derive(Debug, Args)]
struct LimitArgs {
    /// Exit with 1 if there is a regression
    #[arg(long)]
    check: bool,

    /// Smallest regression in percent; it must also exceed the noise between runs
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    worse_than: f64,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A run's ID or a part of it, or `last`
    #[arg(value_name = "ID")]
    id: String,

    /// Print the JSON document
    #[arg(long)]
    json: bool,

    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The earlier run
    #[arg(value_name = "BEFORE")]
    before: String,

    /// The later run
    #[arg(value_name = "AFTER")]
    after: String,

    #[command(flatten)]
    limit: LimitArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write an HTML page that compares the two
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct BaselineArgs {
    #[command(subcommand)]
    command: BaselineCommand,
}

#[derive(Debug, Subcommand)]
enum BaselineCommand {
    /// Compare later runs of the same kind with this one; replaces an earlier baseline
    Set {
        /// A run's ID or a part of it, or `last`
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Clear the baseline: compare with the median of earlier runs again
    Clear {
        /// A run's ID or a part of it, or `last`
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(super) fn run(args: &HistoryArgs) -> Result<Exit, Failure> {
    let saved_runs = SavedRuns::of_user().map_err(Failure::failed)?;
    let history = saved_runs.load().map_err(Failure::failed)?;
    for skipped in &history.skipped {
        output::warning(skipped);
    }
    match &args.command {
        None => list(&args.list, &history),
        Some(HistoryCommand::Show(args)) => show(args, &history),
        Some(HistoryCommand::Compare(args)) => compare(args, &history),
        Some(HistoryCommand::Baseline(args)) => baseline(&args.command, &saved_runs, &history),
    }
}

fn list(args: &ListArgs, history: &History) -> Result<Exit, Failure> {
    let trends = check::newest(history, args.last.into(), args.limit.ratio());
    match args.json {
        true => output::json(&check::report(history, &trends))?,
        false => output::text(&text::list(history, &trends, &args.limit))?,
    }
    Ok(args.limit.exit(&trends))
}

fn show(args: &ShowArgs, history: &History) -> Result<Exit, Failure> {
    let SavedRun { id, document, .. } = history.find(&args.id)?;
    match args.json {
        true => output::json(document)?,
        false => output::text(&text::show(id, document))?,
    }
    if let Some(page) = &args.report {
        report::write(page, std::slice::from_ref(document), None)?;
    }
    Ok(Exit::Done)
}

fn compare(args: &CompareArgs, history: &History) -> Result<Exit, Failure> {
    let (before, after) = (history.find(&args.before)?, history.find(&args.after)?);
    let changes = trend::changes(&after.document, &before.document);
    if changes.is_empty() {
        return Err(Failure::usage(format!(
            "{} and {} have no result in common: different tests or transports",
            before.id, after.id
        )));
    }
    let ratio = args.limit.ratio();
    let trends: Vec<Trend> =
        changes.into_iter().map(|change| Trend::new(&after.id, change, ratio)).collect();
    match args.json {
        true => output::json(&trends)?,
        false => output::answer(&text::changes(&trends))?,
    }
    if let Some(page) = &args.report {
        let after = std::slice::from_ref(&after.document);
        report::write(page, after, Some(&before.document))?;
    }
    Ok(args.limit.exit(&trends))
}

fn baseline(
    command: &BaselineCommand,
    saved_runs: &SavedRuns,
    history: &History,
) -> Result<Exit, Failure> {
    let (id, is_set) = match command {
        BaselineCommand::Set { id } => (id, true),
        BaselineCommand::Clear { id } => (id, false),
    };
    let chosen = history.find(id)?;
    // A result has one baseline: other runs that have it too are no longer baselines.
    let overlaps = |run: &&SavedRun| !trend::changes(&chosen.document, &run.document).is_empty();
    let others = history.runs.iter().filter(|run| run.is_baseline && run.id != chosen.id);
    let mut ids: Vec<&str> =
        others.filter(|run| !(is_set && overlaps(run))).map(|run| run.id.as_str()).collect();
    ids.extend(is_set.then_some(chosen.id.as_str()));
    saved_runs.set_baselines(&ids).map_err(Failure::failed)?;
    let text = match is_set {
        true => format!("{} is the baseline of later runs of its kind", chosen.id),
        false => format!("{} is no longer a baseline", chosen.id),
    };
    output::note(&text);
    Ok(Exit::Done)
}

impl LimitArgs {
    fn ratio(&self) -> f64 {
        self.worse_than / 100.0
    }

    fn exit(&self, trends: &[Trend]) -> Exit {
        let worse = trends.iter().any(|trend| trend.is_regression);
        if self.check && worse { Exit::No } else { Exit::Done }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let number = number.filter(|percent| (0.0..=1000.0).contains(percent));
    number.ok_or_else(|| "expected a percentage from 0 to 1000".to_owned())
}

const HELP: &str = "\
Runs are saved in $XDG_STATE_HOME/wirelane/bench, else in /var/lib/wirelane/bench for root and in
~/.local/state/wirelane/bench for others: the newest 500, and baselines.";
