//! `wirelane revert`: reverts changes, the newest first.

use std::path::PathBuf;
use std::time::Duration;

use change::{Machine, Pick, RevertMode, RevertOutcome, RevertReport, revert};
use clap::Args;
use serde::Deserialize;

use crate::arguments::hosts;
use crate::commands::plans::{now, refused};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use remote::{self, HostAnswer, Limits};

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "all", "last"])))]
pub(crate) struct RevertArgs {
    /// Numbers of changes (see `wirelane changes`)
    #[arg(value_name = "ID")]
    ids: Vec<u64>,

    /// All changes
    #[arg(long)]
    all: bool,

    /// The changes of the last command that changed something
    #[arg(long)]
    last: bool,

    #[command(flatten)]
    options: RevertOptions,

    /// Run on these hosts over ssh instead: a,b or gpu[001-032]; each host numbers its own changes
    #[arg(long, value_name = "LIST", conflicts_with_all = ["ids", "root"])]
    hosts: Option<String>,
}

/// How changes are reverted.
#[derive(Debug, Args)]
pub(crate) struct RevertOptions {
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Also revert what was modified since by others
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Revert the changes of this directory tree instead of the running machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl RevertOptions {
    /// The machine that was changed.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        Machine::at(&self.root).map_err(refused)
    }

    /// Reverts these changes, and prints what became of each.
    pub(crate) fn revert(&self, machine: &Machine, pick: &Pick) -> Result<Exit, Failure> {
        let mode = RevertMode::default().force(self.force).dry_run(self.dry_run);
        let outcomes = revert(machine, pick, mode, now()).map_err(refused)?;
        print(&outcomes, self)
    }
}

/// What is left as it is makes the answer a no; what cannot be set back is a failure.
pub(crate) fn run(_global: &Global, args: &RevertArgs) -> Result<Exit, Failure> {
    if let Some(list) = &args.hosts {
        return elsewhere(args, list);
    }
    let pick = match (args.all, args.last) {
        (true, _) => Pick::All,
        (_, true) => Pick::Last,
        _ => Pick::Numbers(args.ids.clone()),
    };
    args.options.revert(&args.options.machine()?, &pick)
}

/// The same on several hosts: this program does it on each, and the answers are told together.
fn elsewhere(args: &RevertArgs, list: &str) -> Result<Exit, Failure> {
    let which = if args.all { "--all" } else { "--last" };
    let optional = [(args.options.dry_run, "--dry-run"), (args.options.force, "--force")];
    let optional = optional.into_iter().filter_map(|(is_set, word)| is_set.then_some(word));
    let words: Vec<String> =
        ["revert", "--json", which].into_iter().chain(optional).map(str::to_owned).collect();
    let places = remote::targets(hosts::parse("revert", list)?)?;
    let told = HostAnswer::from_all(&places, LIMITS, &output::progress, |_| words.clone());
    if args.options.json {
        output::json(&serde_json::json!({ "hosts": told }))?;
    } else {
        told.iter().try_for_each(|one| output::answer(&one_host(one, args.options.dry_run)))?;
    }
    hosts::exit_code(&told, "revert: not all was reverted")
}

fn one_host(told: &HostAnswer, rehearsed: bool) -> String {
    let outcomes = told.answer.as_ref().map(Vec::<RevertReport>::deserialize);
    let said = match (outcomes, &told.error) {
        (Some(Ok(outcomes)), _) => text(&outcomes, rehearsed),
        (_, Some(error)) => format!("{error}\n"),
        (_, None) => "its answer is no list of changes: is its version another?\n".to_owned(),
    };
    format!("{}\n{said}", told.host)
}

fn print(outcomes: &[RevertReport], options: &RevertOptions) -> Result<Exit, Failure> {
    if options.json {
        output::json(&outcomes)?;
    } else {
        output::answer(&text(outcomes, options.dry_run))?;
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.outcome, RevertOutcome::Failed(_)))
        .count();
    if failed > 0 {
        return Err(Failure::failed(format!("revert: {failed} changes could not be reverted")));
    }
    let left = outcomes.iter().any(|outcome| matches!(outcome.outcome, RevertOutcome::Left(_)));
    Ok(if left { Exit::No } else { Exit::Done })
}

fn text(outcomes: &[RevertReport], rehearsed: bool) -> String {
    if outcomes.is_empty() {
        return "nothing to revert\n".to_owned();
    }
    let taken = if rehearsed { "would be reverted" } else { "reverted" };
    let line = |RevertReport { id, target, outcome }: &RevertReport| match outcome {
        RevertOutcome::Reverted(values) => format!("{id:4}  {target}  {taken}: {values}\n"),
        RevertOutcome::Nothing(why) => format!("{id:4}  {target}  nothing to do: {why}\n"),
        RevertOutcome::Left(why) => format!("{id:4}  {target}  left: {why}\n"),
        RevertOutcome::Failed(why) => format!("{id:4}  {target}  not reverted: {why}\n"),
    };
    outcomes.iter().map(line).collect()
}

/// Packages are removed there.
const LIMITS: Limits = Limits { time: Duration::from_secs(1800), bytes: 16 << 20 };
