//! Shows and applies plans for server and client.

use change::Plan;
use change::nfs::Refusal;
use clap::{Args, Subcommand};
use node::{Node, Tree};

use crate::commands::plans::apply::{Application, ApplyArgs, PlanTarget};
use crate::commands::plans::{failure, report};
use crate::output::{Exit, Failure};

/// `plan` and `apply` of server or client.
#[derive(Debug, Subcommand)]
pub(super) enum PlanOrApply<A: Args> {
    /// Show what would be changed, as a diff; changes nothing
    Plan(A),
    /// Make the changes, all or none; `wirelane nfs remove` reverts them
    Apply(ApplyArgs<A>),
}

impl<A: Args> PlanOrApply<A> {
    /// The arguments; for `apply`, also --yes.
    pub(super) fn parts(&self) -> (&A, Option<bool>) {
        match self {
            PlanOrApply::Plan(args) => (args, None),
            PlanOrApply::Apply(args) => (&args.plan, Some(args.yes)),
        }
    }
}

/// Arguments of both server and client.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// All but these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    #[command(flatten)]
    target: PlanTarget,
}

/// The machine that was read.
pub(super) struct ReadMachine {
    pub(super) tree: Tree,
    pub(super) node: Node,
}

impl EndArgs {
    pub(super) fn read(&self) -> Result<ReadMachine, Failure> {
        let tree = self.target.tree()?;
        let node = Node::read(&tree);
        Ok(ReadMachine { tree, node })
    }

    /// The plan without skipped items.
    pub(super) fn without_skipped(&self, mut plan: Plan) -> Result<Plan, Failure> {
        let unknown = |item: &&String| plan.steps.iter().all(|step| step.item != **item);
        if let Some(item) = self.skip.iter().find(unknown) {
            let mut items: Vec<&str> = plan.steps.iter().map(|step| step.item.as_str()).collect();
            items.dedup();
            return Err(Failure::usage(format!(
                "--skip {item}: no such item; choose from: {}",
                items.join(", ")
            )));
        }
        plan.steps.retain(|step| !self.skip.contains(&step.item));
        Ok(plan)
    }

    /// Prints or applies the plan.
    pub(super) fn run(
        &self,
        plan: &Plan,
        machine: ReadMachine,
        command: &str,
        apply: Option<bool>,
    ) -> Result<Exit, Failure> {
        match apply {
            None => self.target.show(machine.tree, |reader| report::Report::new(plan, reader)),
            Some(yes) => self.apply(plan, &machine.node, command, yes),
        }
    }

    fn apply(&self, plan: &Plan, node: &Node, command: &str, yes: bool) -> Result<Exit, Failure> {
        let machine = self.target.machine()?;
        if machine.is_live() && node.host.container.is_some() {
            return Err(Failure::no(
                "this is a container: kernel modules, mounts and the NFS server belong to its host; run this on the host",
            ));
        }
        let report = report::Report::new(plan, &machine.reader().map_err(failure)?);
        let application = Application { name: command, command, yes, json: self.target.json };
        let applied = application.apply(&machine, plan, &report)?;
        application.report(report, &applied)
    }
}

/// A refusal is a negative result.
pub(super) fn no(refusal: Refusal) -> Failure {
    Failure::no(refusal.to_string())
}
