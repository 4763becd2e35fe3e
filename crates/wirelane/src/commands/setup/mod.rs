//! `wirelane setup`: persistent configuration of this host or several for jobs on the fabric.

mod args;
mod on_hosts;
mod render;

use change::Plan;
use change::setup::{self, Refusal};
use node::{Node, Tree};

use crate::commands::plans::apply::Application;
use crate::commands::plans::failure;
use crate::output::{Exit, Failure};
use crate::settings::Global;
pub(crate) use args::SetupArgs;
use args::{Action, Task};
use render::SetupReport;

pub(crate) fn run(_global: &Global, args: &SetupArgs) -> Result<Exit, Failure> {
    let task = args.task();
    let hosts = task.hosts()?;
    if !hosts.is_empty() {
        return on_hosts::run(&task, hosts);
    }
    match task.action {
        Action::Plan => show(&task),
        Action::Apply { yes } => apply(&task, yes),
    }
}

fn show(task: &Task<'_>) -> Result<Exit, Failure> {
    let Planned { plan, node, tree } = plan(task)?;
    task.options.target.show(tree, |reader| SetupReport::new(task.purpose, &node, &plan, reader))
}

fn apply(task: &Task<'_>, yes: bool) -> Result<Exit, Failure> {
    let Planned { plan, node, .. } = plan(task)?;
    let machine = task.options.target.machine()?;
    if machine.is_live() && node.host.container.is_some() {
        return Err(Failure::no(
            "this is a container: kernel modules, limits and devices belong to its host; run this on the host",
        ));
    }
    let report = SetupReport::new(task.purpose, &node, &plan, &machine.reader().map_err(failure)?);
    let application = Application {
        name: "setup apply",
        command: &format!("setup {} apply", task.purpose.name()),
        yes,
        json: task.options.target.json,
    };
    let applied = application.apply(&machine, &plan, &report)?;
    application.report(report, &applied)
}

/// A plan, and the machine that it is for.
struct Planned {
    plan: Plan,
    node: Node,
    tree: Tree,
}

fn plan(task: &Task<'_>) -> Result<Planned, Failure> {
    let tree = task.options.target.tree()?;
    let node = Node::read(&tree);
    let plan = setup::plan(&node, &tree, &task.request()).map_err(|refusal| match refusal {
        Refusal::WrongUse(text) => Failure::usage(format!("setup: {text}")),
        Refusal::UnknownSystem(text) => Failure::no(format!("setup: {text}")),
    })?;
    Ok(Planned { plan, node, tree })
}
