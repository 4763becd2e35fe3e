//! Shows and makes plans of both ends.

use std::path::PathBuf;

use change::nfs::Refusal;
use change::{self, Look, Machine, Plan};
use clap::Args;
use node::{Node, Tree};

use crate::arguments::host::HostArgs;
use crate::commands::changed::{agreed, now, refused, report};
use crate::output;
use crate::output::{Exit, Failure};

/// Which machine, and how it is told.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Not these items of the plan
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Look at this folder or snapshot file instead of the running machine, and change nothing outside of it
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,
}

/// What is looked at.
pub(super) struct Here {
    pub(super) tree: Tree,
    pub(super) node: Node,
}

impl How {
    pub(super) fn look(&self) -> Result<Here, Failure> {
        let tree = HostArgs { root: self.root.clone(), host_sys: None }.tree()?;
        let node = Node::read(&tree);
        Ok(Here { tree, node })
    }

    /// A plan without what is not wanted.
    pub(super) fn trim(&self, mut plan: Plan) -> Result<Plan, Failure> {
        let unknown = |item: &&String| plan.steps.iter().all(|step| step.item != **item);
        if let Some(item) = self.skip.iter().find(unknown) {
            let mut items: Vec<&str> = plan.steps.iter().map(|step| step.item.as_str()).collect();
            items.dedup();
            return Err(Failure::usage(format!(
                "--skip {item}: there is no such item; choose of {}",
                items.join(", ")
            )));
        }
        plan.steps.retain(|step| !self.skip.contains(&step.item));
        Ok(plan)
    }

    /// Prints what would be done.
    pub(super) fn show(&self, plan: &Plan, tree: Tree) -> Result<Exit, Failure> {
        // A folder's files are read as they are; a snapshot has what it kept.
        let machine = if self.root.is_file() { None } else { Some(self.machine()?) };
        let look = match &machine {
            Some(machine) => machine.look().map_err(refused)?,
            None => Look::kept(tree),
        };
        let report = report::Report::new(plan, &look);
        if self.json {
            output::json(&report)?;
        } else {
            output::answer(&text(&report))?;
        }
        Ok(Exit::Done)
    }

    /// Makes it, all or nothing.
    pub(super) fn apply(
        &self,
        plan: &Plan,
        here: &Here,
        command: &str,
        yes: bool,
    ) -> Result<Exit, Failure> {
        let machine = self.machine()?;
        if machine.is_live() && here.node.host.container.is_some() {
            return Err(Failure::no(
                "this is a container: modules, mounts and the NFS server are its host's; run it on the host",
            ));
        }
        let look = machine.look().map_err(refused)?;
        let report = report::Report::new(plan, &look);
        if !self.json {
            output::answer(&text(&report))?;
        }
        if report.changes() > 0 && !yes && !agreed(command, report.changes())? {
            return Err(Failure::no("nothing was changed"));
        }
        let applied = change::apply(&machine, plan, command, now()).map_err(refused)?;
        if self.json {
            output::json(&report.with(&applied))?;
        } else {
            output::note(&report::applied(&applied));
        }
        Ok(Exit::Done)
    }

    fn machine(&self) -> Result<Machine, Failure> {
        Machine::at(&self.root).map_err(refused)
    }
}

/// What cannot be done here is a no.
pub(super) fn no(refusal: Refusal) -> Failure {
    Failure::no(refusal.to_string())
}

fn text(report: &report::Report<'_>) -> String {
    let mut text = report.steps();
    text += &report.advice("then");
    if !text.is_empty() {
        text.push('\n');
    }
    format!("{text}{}\n", report.counts().join(", "))
}
