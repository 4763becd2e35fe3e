//! Shows a plan, asks for confirmation, and applies it.

use std::path::{Path, PathBuf};

use change::{ApplyOutcome, Machine, Plan, Reader};
use clap::Args;
use node::Tree;
use serde::Serialize;

use super::{confirm, failure, now, report};
use crate::arguments::host::{HostArgs, check_devices};
use crate::output;
use crate::output::{Exit, Failure, wrap};

/// The machine of a plan, and the output format.
#[derive(Debug, Args)]
pub(crate) struct PlanTarget {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Read this directory tree or snapshot file instead of the running machine, and change nothing outside of it
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// `apply`: the arguments of `plan`, and --yes.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs<A: Args> {
    #[command(flatten)]
    pub(crate) plan: A,

    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A plan as displayed by a command.
pub(crate) trait PlanView: Serialize {
    /// As text.
    fn text(&self) -> String;

    /// The number of steps that would change something.
    fn changes(&self) -> usize;

    /// Adds what was done, for JSON.
    fn set_applied(&mut self, applied: &ApplyOutcome);
}

/// Applies a plan.
#[derive(Debug)]
pub(crate) struct Application<'a> {
    /// The name of the command, for the confirmation: `tune apply`.
    pub(crate) name: &'a str,
    /// The command for the journal.
    pub(crate) command: &'a str,
    /// Whether to skip the confirmation.
    pub(crate) yes: bool,
    /// Whether JSON is printed.
    pub(crate) json: bool,
}

impl PlanTarget {
    /// The machine to read.
    pub(crate) fn tree(&self) -> Result<Tree, Failure> {
        let tree = HostArgs { root: self.root.clone(), host_sys: None }.tree()?;
        check_devices(&tree)?;
        Ok(tree)
    }

    /// The machine to change.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        machine(&self.root)
    }

    /// Prints a plan. The current state is read from the machine or directory tree, or taken from a snapshot.
    pub(crate) fn show<V: PlanView>(
        &self,
        tree: Tree,
        view: impl FnOnce(&Reader<'_>) -> V,
    ) -> Result<Exit, Failure> {
        let view = if self.root.is_file() {
            view(&Reader::of_snapshot(tree))
        } else {
            view(&self.machine()?.reader().map_err(failure)?)
        };
        print(&view, self.json)?;
        Ok(Exit::Done)
    }
}

impl Application<'_> {
    /// Prints the plan, asks for confirmation unless --yes is given, and applies it.
    pub(crate) fn apply(
        &self,
        machine: &Machine,
        plan: &Plan,
        view: &impl PlanView,
    ) -> Result<ApplyOutcome, Failure> {
        if !self.json {
            print(view, false)?;
        }
        if view.changes() > 0 && !self.yes && !confirm(self.name, view.changes())? {
            return Err(Failure::no("nothing was changed"));
        }
        change::apply(machine, plan, self.command, now()).map_err(failure)
    }

    /// Prints what was done.
    pub(crate) fn report(
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
    Machine::at(root).map_err(failure)
}

/// Prints a plan.
pub(crate) fn print(view: &impl PlanView, json: bool) -> Result<(), Failure> {
    if json { output::json(view) } else { output::answer(&wrap::fit_prose(&view.text())) }
}
