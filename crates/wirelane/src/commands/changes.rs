//! `wirelane changes`: what was changed on a machine, and whether it is still so.

use std::fmt::Write;
use std::path::PathBuf;

use change::{ChangeStatus, Entry, Journal, Machine, State, before_and_after};
use clap::Args;
use serde::Serialize;

use crate::commands::plans::{date, refused};
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
    let machine = Machine::at(&args.root).map_err(refused)?;
    let history = Journal::read(&machine).map_err(refused)?;
    let reader = machine.reader().map_err(refused)?;
    let changes = history.entries.iter().map(|entry| ChangeReport {
        name: entry.planned.change.target.name(),
        standing: entry.status(&machine, &reader),
        entry,
    });
    let changes: Vec<ChangeReport<'_>> = changes.collect();
    if args.json {
        output::json(&Report { cut_off: history.cut_off, changes: &changes })?;
    } else {
        output::answer(&text(&changes, args.all))?;
    }
    if history.cut_off {
        output::warning(
            &"the journal's last line is a piece: a run was cut off before that change was begun",
        );
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Report<'r> {
    cut_off: bool,
    changes: &'r [ChangeReport<'r>],
}

#[derive(Serialize)]
struct ChangeReport<'e> {
    name: String,
    #[serde(flatten)]
    entry: &'e Entry,
    standing: ChangeStatus,
}

fn text(changes: &[ChangeReport<'_>], all: bool) -> String {
    let shown = changes.iter().filter(|change| all || change.standing != ChangeStatus::Reverted);
    let mut text = String::new();
    let mut run = 0;
    for change in shown {
        let planned = &change.entry.planned;
        if planned.run != run {
            run = planned.run;
            let _ = writeln!(text, "{}  {}", date(change.entry.at), planned.command);
        }
        let values = before_and_after(&planned.before, &planned.change.wanted);
        let _ = writeln!(
            text,
            "  {:4}  {}  {values}  ({})",
            change.entry.id,
            change.name,
            told(&change.standing)
        );
    }
    if text.is_empty() {
        text.push_str(match changes.len() {
            0 => "nothing was changed by wirelane\n",
            _ => "everything was reverted; --all lists it\n",
        });
    }
    text
}

fn told(standing: &ChangeStatus) -> String {
    match standing {
        ChangeStatus::InForce => "in force".to_owned(),
        ChangeStatus::Undone => "undone by somebody else".to_owned(),
        ChangeStatus::Changed(State::Absent) => "removed since by somebody else".to_owned(),
        ChangeStatus::Changed(_) => "changed since by somebody else".to_owned(),
        ChangeStatus::Restarted => "gone with a restart".to_owned(),
        ChangeStatus::CutOff => "cut off in the middle: revert it".to_owned(),
        ChangeStatus::Reverted => "reverted".to_owned(),
        ChangeStatus::Unknown(why) => format!("unknown: {why}"),
    }
}
