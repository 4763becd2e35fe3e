//! How commands show a plan, ask, and make it.

use std::path::{Path, PathBuf};

use change::{ApplyOutcome, Machine, Plan, Reader};
use clap::Args;
use node::Tree;
use serde::Serialize;

use super::{agreed, now, refused, report};
use crate::arguments::host::HostArgs;
use crate::output;
use crate::output::{Exit, Failure};

/// Of which machine a plan is made, and how it is printed.
#[derive(Debug, Args)]
pub(crate) struct PlanTarget {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Read this directory tree or snapshot file instead of the running machine, and change nothing outside of it
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// `apply`: the arguments of `plan`, and whether to ask.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs<A: Args> {
    #[command(flatten)]
    pub(crate) plan: A,

    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A plan as a command shows it.
pub(crate) trait PlanView: Serialize {
    /// For people.
    fn text(&self) -> String;

    /// How many steps would change something.
    fn changes(&self) -> usize;

    /// Adds what was done, for JSON.
    fn set_applied(&mut self, applied: &ApplyOutcome);
}

/// What `apply` does with a plan.
#[derive(Debug)]
pub(crate) struct Application<'a> {
    /// The command's name, for the question: `tune apply`.
    pub(crate) name: &'a str,
    /// The command as the journal has it.
    pub(crate) command: &'a str,
    /// Whether to ask no one.
    pub(crate) yes: bool,
    /// Whether JSON is printed.
    pub(crate) json: bool,
}

impl PlanTarget {
    /// The machine to read.
    pub(crate) fn tree(&self) -> Result<Tree, Failure> {
        HostArgs { root: self.root.clone(), host_sys: None }.tree()
    }

    /// The machine to change.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        machine(&self.root)
    }

    /// Prints the view of a plan. A folder's files are read as they are; a snapshot has what it kept.
    pub(crate) fn show<V: PlanView>(
        &self,
        tree: Tree,
        view: impl FnOnce(&Reader<'_>) -> V,
    ) -> Result<Exit, Failure> {
        let view = if self.root.is_file() {
            view(&Reader::of_snapshot(tree))
        } else {
            view(&self.machine()?.reader().map_err(refused)?)
        };
        print(&view, self.json)?;
        Ok(Exit::Done)
    }
}

impl Application<'_> {
    /// Shows the plan, asks unless told not to, and makes it.
    pub(crate) fn make(
        &self,
        machine: &Machine,
        plan: &Plan,
        view: &impl PlanView,
    ) -> Result<ApplyOutcome, Failure> {
        if !self.json {
            print(view, false)?;
        }
        if view.changes() > 0 && !self.yes && !agreed(self.name, view.changes())? {
            return Err(Failure::no("nothing was changed"));
        }
        change::apply(machine, plan, self.command, now()).map_err(refused)
    }

    /// Prints what was done.
    pub(crate) fn tell(
        &self,
        mut view: impl PlanView,
        applied: &ApplyOutcome,
    ) -> Result<Exit, Failure> {
        if self.json {
            view.set_applied(applied);
            output::json(&view)?;
        } else {
            output::note(&report::applied(applied));
        }
        Ok(Exit::Done)
    }
}

/// The machine to change.
pub(crate) fn machine(root: &Path) -> Result<Machine, Failure> {
    Machine::at(root).map_err(refused)
}

/// Prints a plan.
pub(crate) fn print(view: &impl PlanView, json: bool) -> Result<(), Failure> {
    if json { output::json(view) } else { output::answer(&view.text()) }
}
