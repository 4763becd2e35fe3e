//! Shows and applies plans for server and client.

use change::Plan;
use change::nfs::Refusal;
use clap::{Args, Subcommand};
use node::{Node, Tree};

use crate::commands::plans::apply::{Application, ApplyArgs, PlanTarget};
use crate::commands::plans::{refused, report};
use crate::output::{Exit, Failure};

/// `plan` and `apply` of one end.
#[derive(Debug, Subcommand)]
pub(super) enum PlanOrApply<A: Args> {
    /// Show what would be changed, as a diff; changes nothing
    Plan(A),
    /// Make the changes, all or none; `wirelane nfs remove` reverts them
    Apply(ApplyArgs<A>),
}

impl<A: Args> PlanOrApply<A> {
    /// The arguments; of `apply`, also whether to ask no one.
    pub(super) fn parts(&self) -> (&A, Option<bool>) {
        match self {
            PlanOrApply::Plan(args) => (args, None),
            PlanOrApply::Apply(args) => (&args.plan, Some(args.yes)),
        }
    }
}

/// Arguments that both ends have.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// All but these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    #[command(flatten)]
    target: PlanTarget,
}

/// The machine that was read.
pub(super) struct Here {
    pub(super) tree: Tree,
    pub(super) node: Node,
}

impl EndArgs {
    pub(super) fn look(&self) -> Result<Here, Failure> {
        let tree = self.target.tree()?;
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

    /// Prints what would be done, or does it.
    pub(super) fn run(
        &self,
        plan: &Plan,
        here: Here,
        command: &str,
        apply: Option<bool>,
    ) -> Result<Exit, Failure> {
        match apply {
            None => self.target.show(here.tree, |reader| report::Report::new(plan, reader)),
            Some(yes) => self.apply(plan, &here.node, command, yes),
        }
    }

    fn apply(&self, plan: &Plan, node: &Node, command: &str, yes: bool) -> Result<Exit, Failure> {
        let machine = self.target.machine()?;
        if machine.is_live() && node.host.container.is_some() {
            return Err(Failure::no(
                "this is a container: modules, mounts and the NFS server are its host's; run it on the host",
            ));
        }
        let report = report::Report::new(plan, &machine.reader().map_err(refused)?);
        let application = Application { name: command, command, yes, json: self.target.json };
        let applied = application.make(&machine, plan, &report)?;
        application.tell(report, &applied)
    }
}

/// What cannot be done here is a no.
pub(super) fn no(refusal: Refusal) -> Failure {
    Failure::no(refusal.to_string())
}
