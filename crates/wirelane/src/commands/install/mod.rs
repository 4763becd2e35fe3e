//! `wirelane install`: installs units, rules and dashboards.

mod start;

use std::fmt::Write as _;
use std::path::PathBuf;

use change::install::{self, KeptFile, Part, Program};
use change::{ApplyOutcome, Machine, Plan};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::commands::plans::apply::{self, Application, PlanView};
use crate::commands::plans::{failure, report};
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(subcommand)]
    command: InstallCommand,
}

#[derive(Debug, Subcommand)]
enum InstallCommand {
    /// Show which files would be installed, as a diff; changes nothing
    Plan(InstallOptions),
    /// Install the files; `wirelane revert` removes them
    Apply(InstallApplyArgs),
}

#[derive(Debug, Args)]
struct InstallApplyArgs {
    #[command(flatten)]
    apply: apply::ApplyArgs<InstallOptions>,

    /// Print what would be done, as `install plan`, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Also enable and start the systemd units
    #[arg(long)]
    start: bool,
}

/// What to install, and where.
#[derive(Debug, Args)]
struct InstallOptions {
    /// What to install
    #[arg(value_name = "PART", default_value = "all")]
    parts: Vec<PartArg>,

    /// Path of the program in units (default: the path it runs from)
    #[arg(long, value_name = "PATH")]
    program: Option<String>,

    /// Overwrite files that others created or modified; `wirelane revert` restores them
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Install into this directory tree instead of the running machine, for packages and images
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// The exporter as a service
    Exporter,
    /// The store as a service
    Serve,
    /// Alert rules and an example scrape configuration
    Prometheus,
    /// Dashboards
    Grafana,
    All,
}

pub(crate) fn run(_global: &Global, args: &InstallArgs) -> Result<Exit, Failure> {
    match &args.command {
        InstallCommand::Plan(options) => show(options),
        InstallCommand::Apply(args) if args.dry_run => show(&args.apply.plan),
        InstallCommand::Apply(args) => apply(args),
    }
}

fn show(options: &InstallOptions) -> Result<Exit, Failure> {
    let machine = apply::machine(&options.root)?;
    let (plan, kept) = options.plan(&machine)?;
    let reader = machine.reader().map_err(failure)?;
    let report = InstallReport { kept: &kept, plan: report::Report::new(&plan, &reader) };
    apply::print(&report, options.json)?;
    Ok(Exit::Done)
}

fn apply(args: &InstallApplyArgs) -> Result<Exit, Failure> {
    let options = &args.apply.plan;
    let machine = apply::machine(&options.root)?;
    if args.start {
        start::check(&machine)?;
    }
    let (plan, kept) = options.plan(&machine)?;
    let reader = machine.reader().map_err(failure)?;
    let report = InstallReport { kept: &kept, plan: report::Report::new(&plan, &reader) };
    let application = Application {
        name: "install apply",
        command: &options.command(),
        yes: args.apply.yes,
        json: options.json,
    };
    let applied = application.apply(&machine, &plan, &report)?;
    if args.start {
        start::units(&options.parts())?;
    }
    application.report(report, &applied)
}

impl InstallOptions {
    fn parts(&self) -> Vec<Part> {
        let part = |arg: &PartArg| match arg {
            PartArg::Exporter => vec![Part::Exporter],
            PartArg::Serve => vec![Part::Serve],
            PartArg::Prometheus => vec![Part::Prometheus],
            PartArg::Grafana => vec![Part::Grafana],
            PartArg::All => Part::ALL.to_vec(),
        };
        self.parts.iter().flat_map(part).collect()
    }

    /// The command for the journal.
    fn command(&self) -> String {
        let parts = self.parts();
        let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        format!("install apply {}", names.join(" "))
    }

    /// The files to install, and existing files that are kept instead.
    fn plan(&self, machine: &Machine) -> Result<(Plan, Vec<KeptFile>), Failure> {
        let mut plan = install::plan(&self.parts(), &self.program()?);
        let kept = match self.force {
            true => Vec::new(),
            false => install::skip_foreign_files(machine, &mut plan).map_err(failure)?,
        };
        Ok((plan, kept))
    }

    fn program(&self) -> Result<Program, Failure> {
        let program = match &self.program {
            Some(path) => Program::at(path),
            None => {
                let path = std::env::current_exe()
                    .map_err(|error| Failure::failed(format!("find this program: {error}")))?;
                Program::running(&path.to_string_lossy())
            }
        };
        program.map_err(|error| Failure::usage(format!("install: {error}")))
    }
}

#[derive(Serialize)]
struct InstallReport<'p> {
    #[serde(flatten)]
    plan: report::Report<'p>,
    kept: &'p [KeptFile],
}

impl PlanView for InstallReport<'_> {
    fn changes(&self) -> usize {
        self.plan.changes()
    }

    fn set_applied(&mut self, applied: &ApplyOutcome) {
        self.plan.set_applied(applied);
    }

    fn text(&self) -> String {
        let mut text = self.plan.steps();
        for KeptFile { path, why, diff } in self.kept {
            let _ = writeln!(text, "kept: {path}\n  {why}; --force replaces it:");
            report::write_diff(&mut text, diff);
        }
        text += &self.plan.advice("then");
        let mut counts = self.plan.counts();
        if !self.kept.is_empty() {
            counts.push(format!("{} kept", self.kept.len()));
        }
        format!("{text}\n{}\n", counts.join(", "))
    }
}
