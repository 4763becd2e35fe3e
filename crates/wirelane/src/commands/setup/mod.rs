//! `wirelane setup`: what a host needs for jobs on the fabric, kept over a restart; on this host or on several.

mod args;
mod elsewhere;
mod render;

use change::setup::{self, Refusal};
use change::{self, Look, Machine, Plan};
use node::{Node, Tree};

use crate::arguments::host::HostArgs;
use crate::commands::changed::{agreed, now, refused, report};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
pub(crate) use args::SetupArgs;
use args::{Act, Task};
use render::Report;

pub(crate) fn run(_global: &Global, args: &SetupArgs) -> Result<Exit, Failure> {
    let task = args.task();
    let hosts = task.hosts()?;
    if !hosts.is_empty() {
        return elsewhere::run(&task, hosts);
    }
    match task.act {
        Act::Plan => show(&task),
        Act::Apply { yes } => apply(&task, yes),
    }
}

fn show(task: &Task<'_>) -> Result<Exit, Failure> {
    let planned = plan(task)?;
    // A folder's files are read as they are; a snapshot has what it kept.
    let machine = if task.what.root.is_file() { None } else { Some(machine(task)?) };
    let report = match &machine {
        Some(machine) => planned.report(task, &machine.look().map_err(refused)?),
        None => planned.report(task, &Look::kept(planned.host.tree()?)),
    };
    report.print(task.what.json)?;
    Ok(Exit::Done)
}

fn apply(task: &Task<'_>, yes: bool) -> Result<Exit, Failure> {
    let planned = plan(task)?;
    let machine = machine(task)?;
    if machine.is_live() && planned.node.host.container.is_some() {
        return Err(Failure::no(
            "this is a container: modules, limits and devices are its host's; run it on the host",
        ));
    }
    let report = planned.report(task, &machine.look().map_err(refused)?);
    if !task.what.json {
        report.print(false)?;
    }
    if report.changes() > 0 && !yes && !agreed("setup apply", report.changes())? {
        return Err(Failure::no("nothing was changed"));
    }
    let command = format!("setup {} apply", task.purpose.name());
    let applied = change::apply(&machine, &planned.plan, &command, now()).map_err(refused)?;
    if task.what.json {
        report.with(&applied).print(true)?;
    } else {
        output::note(&report::applied(&applied));
    }
    Ok(Exit::Done)
}

fn machine(task: &Task<'_>) -> Result<Machine, Failure> {
    Machine::at(&task.what.root).map_err(refused)
}

/// A plan, and what it was made for.
struct Planned {
    plan: Plan,
    node: Node,
    host: HostArgs,
}

fn plan(task: &Task<'_>) -> Result<Planned, Failure> {
    let host = HostArgs { root: task.what.root.clone(), host_sys: None };
    let tree: Tree = host.tree()?;
    let node = Node::read(&tree);
    let plan = setup::plan(&node, &tree, &task.wish()).map_err(|refusal| match refusal {
        Refusal::WrongUse(text) => Failure::usage(format!("setup: {text}")),
        Refusal::UnknownSystem(text) => Failure::no(format!("setup: {text}")),
    })?;
    Ok(Planned { plan, node, host })
}

impl Planned {
    fn report(&self, task: &Task<'_>, look: &Look<'_>) -> Report<'_> {
        Report::new(task.purpose, &self.node, &self.plan, look)
    }
}
