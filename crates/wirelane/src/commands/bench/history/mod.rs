//! `wirelane bench history`: what was measured before, and whether it got worse.

mod check;
mod store;
mod text;

use std::path::PathBuf;

use ::report::trend;
use clap::{Args, Subcommand};

use super::report;
use crate::output;
use crate::output::{Exit, Failure};
use check::Trend;
pub(super) use store::Store;
use store::{Kept, Past};

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
    /// Show the results of a run, or its whole document
    Show(ShowArgs),
    /// Show the results of two runs beside each other
    Compare(CompareArgs),
    /// Say with which run later ones are compared
    Baseline(BaselineArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    limit: LimitArgs,

    /// Without a baseline, compare with the median of so many runs before
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    last: u16,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How much worse is too much.
#[derive(Debug, Args)]
struct LimitArgs {
    /// End with 1 if the newest run of anything is worse than before
    #[arg(long)]
    check: bool,

    /// How much worse counts, in percent; it must also be more than runs differ by anyway
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    worse_than: f64,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A run's ID or a part of it, or `last`
    #[arg(value_name = "ID")]
    id: String,

    /// Print the document
    #[arg(long)]
    json: bool,

    /// Write a page with plots of it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The run before
    #[arg(value_name = "BEFORE")]
    before: String,

    /// The run after
    #[arg(value_name = "AFTER")]
    after: String,

    #[command(flatten)]
    limit: LimitArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write a page with plots of the second against the first
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
    /// Compare later runs of the same kind with this one, in place of the one before
    Set {
        /// A run's ID or a part of it, or `last`
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Compare with what is usual again
    Clear {
        /// A run's ID or a part of it, or `last`
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(super) fn run(args: &HistoryArgs) -> Result<Exit, Failure> {
    let store = Store::of_the_user().map_err(Failure::failed)?;
    let past = store.load().map_err(Failure::failed)?;
    for skipped in &past.skipped {
        output::warning(skipped);
    }
    match &args.command {
        None => list(&args.list, &past),
        Some(HistoryCommand::Show(args)) => show(args, &past),
        Some(HistoryCommand::Compare(args)) => compare(args, &past),
        Some(HistoryCommand::Baseline(args)) => baseline(&args.command, &store, &past),
    }
}

fn list(args: &ListArgs, past: &Past) -> Result<Exit, Failure> {
    let trends = check::newest(past, args.last.into(), args.limit.part());
    match args.json {
        true => output::json(&check::report(past, &trends))?,
        false => output::answer(&text::list(past, &trends, &args.limit))?,
    }
    Ok(args.limit.exit(&trends))
}

fn show(args: &ShowArgs, past: &Past) -> Result<Exit, Failure> {
    let Kept { id, document, .. } = past.find(&args.id)?;
    match args.json {
        true => output::json(document)?,
        false => output::answer(&text::show(id, document))?,
    }
    if let Some(page) = &args.report {
        report::write(page, std::slice::from_ref(document), None)?;
    }
    Ok(Exit::Done)
}

fn compare(args: &CompareArgs, past: &Past) -> Result<Exit, Failure> {
    let (before, after) = (past.find(&args.before)?, past.find(&args.after)?);
    let changes = trend::changes(&after.document, &before.document);
    if changes.is_empty() {
        return Err(Failure::usage(format!(
            "{} and {} have no result in common: they are of different tests or transports",
            before.id, after.id
        )));
    }
    let part = args.limit.part();
    let trends: Vec<Trend> =
        changes.into_iter().map(|change| Trend::new(&after.id, change, part)).collect();
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

fn baseline(command: &BaselineCommand, store: &Store, past: &Past) -> Result<Exit, Failure> {
    let (id, is_set) = match command {
        BaselineCommand::Set { id } => (id, true),
        BaselineCommand::Clear { id } => (id, false),
    };
    let chosen = past.find(id)?;
    // A result has one baseline: another run that has it too is none any more.
    let like = |run: &&Kept| !trend::changes(&chosen.document, &run.document).is_empty();
    let others = past.runs.iter().filter(|run| run.is_baseline && run.id != chosen.id);
    let mut ids: Vec<&str> =
        others.filter(|run| !(is_set && like(run))).map(|run| run.id.as_str()).collect();
    ids.extend(is_set.then_some(chosen.id.as_str()));
    store.set_baselines(&ids).map_err(Failure::failed)?;
    let text = match is_set {
        true => format!("later runs like {} are compared with it", chosen.id),
        false => format!("{} is no baseline any more", chosen.id),
    };
    output::note(&text);
    Ok(Exit::Done)
}

impl LimitArgs {
    fn part(&self) -> f64 {
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
    number.ok_or_else(|| "write percent, from 0 to 1000".to_owned())
}

const HELP: &str = "\
Runs are kept in $XDG_STATE_HOME/wirelane/bench, else in /var/lib/wirelane/bench for root and in
~/.local/state/wirelane/bench for others: the newest 500, and baselines.";
