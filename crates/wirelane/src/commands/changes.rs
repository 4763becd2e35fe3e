//! `wirelane changes`: the changes made to a machine, and their current state.

use std::fmt::Write;
use std::path::PathBuf;

use change::{ChangeStatus, Entry, Journal, Machine, State, before_and_after};
use clap::Args;
use doctor::one_line;
use serde::Serialize;

use crate::commands::plans::{date, failure};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(crate) struct ChangesArgs {
    /// Include reverted changes
    #[arg(long)]
    all: bool,

    /// Print JSON: all changes, with the previous values
    #[arg(long)]
    json: bool,

    /// Read this directory tree instead of the running machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

pub(crate) fn run(_global: &Global, args: &ChangesArgs) -> Result<Exit, Failure> {
    let machine = Machine::at(&args.root).map_err(failure)?;
    let history = Journal::read(&machine).map_err(failure)?;
    let reader = machine.reader().map_err(failure)?;
    let changes = history.entries.iter().map(|entry| ChangeReport {
        name: entry.planned.change.target.name(),
        status: entry.status(&machine, &reader),
        entry,
    });
    let changes: Vec<ChangeReport<'_>> = changes.collect();
    if args.json {
        output::json(&Report { truncated: history.truncated, changes: &changes })?;
    } else {
        output::text(&text(&changes, args.all))?;
    }
    if history.truncated {
        output::warning(
            &"the last line of the journal is incomplete: a run was interrupted before that change started",
        );
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Report<'r> {
    truncated: bool,
    changes: &'r [ChangeReport<'r>],
}

#[derive(Serialize)]
struct ChangeReport<'e> {
    name: String,
    #[serde(flatten)]
    entry: &'e Entry,
    status: ChangeStatus,
}

fn text(changes: &[ChangeReport<'_>], all: bool) -> String {
    let listed = changes.iter().filter(|change| all || change.status != ChangeStatus::Reverted);
    let mut text = String::new();
    let mut run = 0;
    for change in listed {
        let planned = &change.entry.planned;
        if planned.run != run {
            run = planned.run;
            let _ = writeln!(text, "{}  {}", date(change.entry.at), one_line(&planned.command));
        }
        let values = before_and_after(&planned.before, &planned.change.wanted);
        let (id, status) = (change.entry.id, describe(&change.status));
        // The journal may be one of another machine (--root).
        let [name, values, status] = [&change.name, &values, &status].map(|text| one_line(text));
        let _ = writeln!(text, "  {id:4}  {name}  {values}  ({status})");
    }
    if text.is_empty() {
        text.push_str(match changes.len() {
            0 => "no changes\n",
            _ => "all changes were reverted; --all lists them\n",
        });
    }
    text
}

fn describe(status: &ChangeStatus) -> String {
    match status {
        ChangeStatus::Active => "active".to_owned(),
        ChangeStatus::Undone => "undone by others".to_owned(),
        ChangeStatus::Changed(State::Absent) => "removed by others since".to_owned(),
        ChangeStatus::Changed(_) => "modified by others since".to_owned(),
        ChangeStatus::Restarted => "lost at a restart".to_owned(),
        ChangeStatus::Interrupted => "interrupted: revert it".to_owned(),
        ChangeStatus::Reverted => "reverted".to_owned(),
        ChangeStatus::Unknown(why) => format!("unknown: {why}"),
    }
}
