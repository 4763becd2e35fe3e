//! `wirelane tune`: settings that make the fabric faster, planned or made.

mod render;

use std::path::PathBuf;

use change::tune::{self, Choice, Profile};
use change::{self, Look, Machine, Plan};
use clap::{Args, Subcommand, ValueEnum};
use node::{Node, Tree};

use crate::arguments::host::HostArgs;
use crate::commands::changed::{agreed, now, refused, report};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use render::Report;

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    command: TuneCommand,
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Show what would be changed, as a diff, and why; changes nothing
    Plan(PlanArgs),
    /// Make these changes; `wirelane revert` takes them back
    Apply(ApplyArgs),
}

#[derive(Debug, Args)]
struct PlanArgs {
    #[command(flatten)]
    what: What,

    /// The system to tune; for windows, a PowerShell script is printed, to be run there
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    os: System,
}

#[derive(Debug, Args)]
struct ApplyArgs {
    #[command(flatten)]
    what: What,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What is tuned, and where.
#[derive(Debug, Args)]
struct What {
    /// What the machine is to be good at
    #[arg(long, value_name = "PROFILE", default_value = "throughput")]
    profile: ProfileArg,

    /// These items and no others
    #[arg(long, value_name = "ITEM", value_delimiter = ',', long_help = items_help("These items and no others"))]
    only: Vec<String>,

    /// Not these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    /// What belongs to this RDMA device (with --os windows: network adapter), and to no other; may be repeated
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Look at this folder or snapshot file instead of the running machine, and change nothing outside of it
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    Latency,
    Throughput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    Linux,
    Windows,
}

pub(crate) fn run(_global: &Global, args: &TuneArgs) -> Result<Exit, Failure> {
    match &args.command {
        TuneCommand::Plan(args) if args.os == System::Windows => print_windows(&args.what),
        TuneCommand::Plan(args) => show(&args.what),
        TuneCommand::Apply(args) => apply(args),
    }
}

fn print_windows(what: &What) -> Result<Exit, Failure> {
    let script = tune::windows::script(what.profile(), &what.device);
    if what.json {
        output::json(&serde_json::json!({ "powershell": script, "proven": false }))?;
    } else {
        output::answer(&script)?;
    }
    Ok(Exit::Done)
}

fn show(what: &What) -> Result<Exit, Failure> {
    let Planned { plan, no_rdma, tree, .. } = what.plan()?;
    // A folder's files are read as they are; a snapshot has what it kept.
    let machine = if what.root.is_file() { None } else { Some(what.machine()?) };
    let look = match &machine {
        Some(machine) => machine.look().map_err(refused)?,
        None => Look::kept(tree),
    };
    let report = Report::new(&plan, &look, what.profile(), no_rdma);
    if what.json {
        output::json(&report)?
    } else {
        output::answer(&report.text())?
    }
    Ok(Exit::Done)
}

fn apply(args: &ApplyArgs) -> Result<Exit, Failure> {
    let what = &args.what;
    let Planned { plan, no_rdma, container, .. } = what.plan()?;
    let machine = what.machine()?;
    if machine.is_live() && container {
        return Err(Failure::no(
            "this is a container: what would be set is its host's, and what would be written down here goes with the \
             container; run it on the host",
        ));
    }
    let report = Report::new(&plan, &machine.look().map_err(refused)?, what.profile(), no_rdma);
    if !what.json {
        output::answer(&report.text())?;
    }
    if report.changes() > 0 && !args.yes && !agreed("tune apply", report.changes())? {
        return Err(Failure::no("nothing was changed"));
    }
    let command = format!("tune apply --profile {}", what.profile().name());
    let applied = change::apply(&machine, &plan, &command, now()).map_err(refused)?;
    if what.json {
        output::json(&report.with(&applied))?;
    } else {
        output::note(&report::applied(&applied));
    }
    Ok(Exit::Done)
}

impl From<ProfileArg> for Profile {
    fn from(arg: ProfileArg) -> Self {
        match arg {
            ProfileArg::Latency => Profile::Latency,
            ProfileArg::Throughput => Profile::Throughput,
        }
    }
}

impl What {
    fn profile(&self) -> Profile {
        self.profile.into()
    }

    fn machine(&self) -> Result<Machine, Failure> {
        Machine::at(&self.root).map_err(refused)
    }

    /// The plan, whether there is no RDMA device, and where the facts came from.
    fn plan(&self) -> Result<Planned, Failure> {
        let host = HostArgs { root: self.root.clone(), host_sys: None };
        let tree = host.tree()?;
        let node = Node::read(&tree);
        let choice = Choice {
            only: self.only.clone(),
            skip: self.skip.clone(),
            devices: self.device.clone(),
        };
        let plan = tune::plan(&node, &tree, self.profile(), &choice)
            .map_err(|error| Failure::usage(format!("tune: {error}")))?;
        let (no_rdma, container) = (node.devices.is_empty(), node.host.container.is_some());
        Ok(Planned { plan, no_rdma, container, tree })
    }
}

/// A plan, and what it was made for.
struct Planned {
    plan: Plan,
    no_rdma: bool,
    container: bool,
    tree: Tree,
}

/// Every item in a line, for `--help`.
fn items_help(first: &str) -> String {
    let line = |item: &tune::Item| format!("\n  {:12}{}", item.name, item.what);
    let items: String = tune::ITEMS.iter().map(line).collect();
    format!("{first}:{items}")
}
