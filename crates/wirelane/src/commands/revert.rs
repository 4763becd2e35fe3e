//! `wirelane revert`: reverts changes, newest first.

use std::path::PathBuf;
use std::time::Duration;

use change::{Machine, RevertMode, RevertOutcome, RevertReport, Selection, revert};
use clap::Args;
use doctor::one_line;
use serde::Deserialize;

use crate::arguments::hosts;
use crate::commands::plans::{failure, now};
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

/// Options of reverting.
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
        Machine::at(&self.root).map_err(failure)
    }

    /// Reverts these changes, and prints the outcome of each.
    pub(crate) fn revert(&self, machine: &Machine, selection: &Selection) -> Result<Exit, Failure> {
        let mode = RevertMode::default().force(self.force).dry_run(self.dry_run);
        let outcomes = revert(machine, selection, mode, now()).map_err(failure)?;
        print(&outcomes, self)
    }
}

/// Exit code 1 if a change was not reverted on purpose, 3 if reverting failed.
pub(crate) fn run(_global: &Global, args: &RevertArgs) -> Result<Exit, Failure> {
    if let Some(list) = &args.hosts {
        return run_on_hosts(args, list);
    }
    let selection = match (args.all, args.last) {
        (true, _) => Selection::All,
        (_, true) => Selection::Last,
        _ => Selection::Numbers(args.ids.clone()),
    };
    args.options.revert(&args.options.machine()?, &selection)
}

/// Runs this command on several hosts, and prints their answers.
fn run_on_hosts(args: &RevertArgs, list: &str) -> Result<Exit, Failure> {
    let which = if args.all { "--all" } else { "--last" };
    let optional = [(args.options.dry_run, "--dry-run"), (args.options.force, "--force")];
    let optional = optional.into_iter().filter_map(|(is_set, option)| is_set.then_some(option));
    let arguments: Vec<String> =
        ["revert", "--json", which].into_iter().chain(optional).map(str::to_owned).collect();
    let targets = remote::targets(hosts::parse("revert", list)?)?;
    let answers = HostAnswer::from_all(&targets, LIMITS, &output::progress, |_| arguments.clone());
    if args.options.json {
        output::json(&serde_json::json!({ "hosts": answers }))?;
    } else {
        let dry_run = args.options.dry_run;
        answers.iter().try_for_each(|answer| output::text(&host_text(answer, dry_run)))?;
    }
    hosts::exit_code(&answers, "revert: not all changes were reverted")
}

fn host_text(answer: &HostAnswer, dry_run: bool) -> String {
    let outcomes = answer.answer.as_ref().map(Vec::<RevertReport>::deserialize);
    let text = match (outcomes, &answer.error) {
        (Some(Ok(outcomes)), _) => text(&outcomes, dry_run),
        (_, Some(error)) => format!("{error}\n"),
        (_, None) => {
            "the answer is not a list of changes: is it another version of wirelane?\n".to_owned()
        }
    };
    format!("{}\n{text}", answer.host)
}

fn print(outcomes: &[RevertReport], options: &RevertOptions) -> Result<Exit, Failure> {
    if options.json {
        output::json(&outcomes)?;
    } else {
        output::text(&text(outcomes, options.dry_run))?;
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.outcome, RevertOutcome::Failed(_)))
        .count();
    if failed > 0 {
        return Err(Failure::failed(format!("revert: {failed} changes could not be reverted")));
    }
    let skipped = outcomes.iter().any(|outcome| matches!(outcome.outcome, RevertOutcome::Left(_)));
    Ok(if skipped { Exit::No } else { Exit::Done })
}

fn text(outcomes: &[RevertReport], dry_run: bool) -> String {
    if outcomes.is_empty() {
        return "nothing to revert\n".to_owned();
    }
    let reverted = if dry_run { "would be reverted" } else { "reverted" };
    let line = |RevertReport { id, target, outcome }: &RevertReport| {
        let (word, why) = match outcome {
            RevertOutcome::Reverted(values) => (reverted, values),
            RevertOutcome::Nothing(why) => ("nothing to do", why),
            RevertOutcome::Left(why) => ("skipped", why),
            RevertOutcome::Failed(why) => ("failed", why),
        };
        // The journal, or the whole report, may be of another machine (--root, --hosts).
        format!("{id:4}  {}  {word}: {}\n", one_line(target), one_line(why))
    };
    outcomes.iter().map(line).collect()
}

/// Removing packages takes time.
const LIMITS: Limits = Limits { time: Duration::from_secs(1800), bytes: 16 << 20 };
