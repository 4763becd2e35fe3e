//! `wirelane tune`: plans or applies settings that make the fabric faster.

mod render;

use change::Plan;
use change::tune::{self, Choice, Profile};
use clap::{Args, Subcommand, ValueEnum};
use node::{Node, Tree};

use crate::commands::plans::apply::{Application, ApplyArgs, PlanTarget};
use crate::commands::plans::failure;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use render::TuneReport;

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    command: TuneCommand,
}

#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Show what would be changed, as a diff, and why; changes nothing
    Plan(PlanArgs),
    /// Make the changes; `wirelane revert` reverts them
    Apply(ApplyArgs<TuneOptions>),
}

#[derive(Debug, Args)]
struct PlanArgs {
    #[command(flatten)]
    options: TuneOptions,

    /// Operating system to tune; for windows, print a PowerShell script to run there
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    os: System,
}

/// What to tune, and where.
#[derive(Debug, Args)]
struct TuneOptions {
    /// What to optimize for
    #[arg(long, value_name = "PROFILE", default_value = "throughput")]
    profile: ProfileArg,

    /// Only these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',', long_help = items_help("Only these items"))]
    only: Vec<String>,

    /// All but these items
    #[arg(long, value_name = "ITEM", value_delimiter = ',')]
    skip: Vec<String>,

    /// Only this RDMA device (with --os windows: network adapter); can be repeated
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,

    #[command(flatten)]
    target: PlanTarget,
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
        TuneCommand::Plan(args) if args.os == System::Windows => print_windows(&args.options),
        TuneCommand::Plan(args) => show(&args.options),
        TuneCommand::Apply(args) => apply(args),
    }
}

fn print_windows(options: &TuneOptions) -> Result<Exit, Failure> {
    let script = tune::powershell::script(options.profile(), &options.device);
    if options.target.json {
        output::json(&serde_json::json!({ "powershell": script, "tested_on_hardware": false }))?;
    } else {
        output::answer(&script)?;
    }
    Ok(Exit::Done)
}

fn show(options: &TuneOptions) -> Result<Exit, Failure> {
    let Planned { plan, no_rdma, tree, .. } = options.plan()?;
    options.target.show(tree, |reader| TuneReport::new(&plan, reader, options.profile(), no_rdma))
}

fn apply(args: &ApplyArgs<TuneOptions>) -> Result<Exit, Failure> {
    let options = &args.plan;
    let Planned { plan, no_rdma, container, .. } = options.plan()?;
    let machine = options.target.machine()?;
    if machine.is_live() && container {
        return Err(Failure::no(
            "this is a container: kernel settings belong to its host; run this on the host",
        ));
    }
    let reader = machine.reader().map_err(failure)?;
    let report = TuneReport::new(&plan, &reader, options.profile(), no_rdma);
    let application = Application {
        name: "tune apply",
        command: &format!("tune apply --profile {}", options.profile().name()),
        yes: args.yes,
        json: options.target.json,
    };
    let applied = application.apply(&machine, &plan, &report)?;
    application.report(report, &applied)
}

impl From<ProfileArg> for Profile {
    fn from(arg: ProfileArg) -> Self {
        match arg {
            ProfileArg::Latency => Profile::Latency,
            ProfileArg::Throughput => Profile::Throughput,
        }
    }
}

impl TuneOptions {
    fn profile(&self) -> Profile {
        self.profile.into()
    }

    /// Reads the machine, and plans.
    fn plan(&self) -> Result<Planned, Failure> {
        let tree = self.target.tree()?;
        let node = Node::read(&tree);
        let choice = Choice::default().only(&self.only).skip(&self.skip).devices(&self.device);
        let plan = tune::plan(&node, &tree, self.profile(), &choice)
            .map_err(|error| Failure::usage(format!("tune: {error}")))?;
        let (no_rdma, container) = (node.devices.is_empty(), node.host.container.is_some());
        Ok(Planned { plan, no_rdma, container, tree })
    }
}

/// A plan, and the machine that it is for.
struct Planned {
    plan: Plan,
    no_rdma: bool,
    container: bool,
    tree: Tree,
}

/// The items, one per line, for `--help`.
fn items_help(first: &str) -> String {
    let line = |item: &tune::Item| format!("\n  {:14}{}", item.name, item.what);
    let items: String = tune::ITEMS.iter().map(line).collect();
    format!("{first}:{items}")
}
