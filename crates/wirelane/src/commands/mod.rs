//! What can be typed, and what runs then: one file or folder a command.
//!
//! A command is its arguments, a call of a library, and the rendering of what came of it. Parsing opens, reads and asks
//! nothing. `plans` is what all commands share that change a machine.

mod bench;
mod capture;
mod changes;
mod completions;
mod config;
mod connect;
mod devices;
mod doctor;
mod env;
mod examples;
mod exec;
mod explain;
mod exporter;
pub(crate) mod help;
mod hosts;
mod install;
mod k8s;
mod kv;
mod launch;
mod man;
mod nfs;
mod plans;
#[cfg(test)]
mod reference;
mod revert;
mod serve;
mod setup;
mod snapshot;
mod token;
mod top;
mod topo;
mod tune;
mod version;

use clap::{Parser, Subcommand};

use crate::links;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use bench::BenchArgs;
use capture::CaptureArgs;
use changes::ChangesArgs;
use completions::CompletionsArgs;
use config::ConfigArgs;
use connect::ConnectArgs;
use devices::DevicesArgs;
use doctor::DoctorArgs;
use env::EnvArgs;
use exec::ExecArgs;
use explain::ExplainArgs;
use exporter::ExporterArgs;
use hosts::HostsArgs;
use install::InstallArgs;
use k8s::K8sArgs;
use kv::KvArgs;
use launch::LaunchArgs;
use man::ManArgs;
use nfs::NfsArgs;
use revert::RevertArgs;
use serve::ServeArgs;
use setup::SetupArgs;
use snapshot::SnapshotArgs;
use token::TokenArgs;
use top::TopArgs;
use topo::TopoArgs;
use tune::TuneArgs;

/// Finds this machine's RDMA fabric, says why it can or cannot be used, and serves over it
#[derive(Debug, Parser)]
#[command(name = "wirelane", disable_version_flag = true, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Say the version, and whether RDMA can be used here and why not
    #[arg(short = 'V', long)]
    pub(crate) version: bool,

    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep values in memory for clients by links and gRPC; status and metrics over HTTP
    Serve(ServeArgs),
    /// Store and fetch values, list them, and measure the store
    Kv(KvArgs),
    /// Measure what the fabric gives, and say whether that is what it should give
    Bench(BenchArgs),
    /// Try a link to a peer: measure it, and say which transport it uses and why
    Connect(ConnectArgs),
    /// Make tokens, by which a store knows its callers, and check files of them
    Token(TokenArgs),
    /// List the RDMA devices, their ports and GIDs
    Devices(DevicesArgs),
    /// Show how far GPUs and RDMA devices are from each other, and which belongs to which
    Topo(TopoArgs),
    /// Save everything that is read on this machine, to look at it elsewhere
    Snapshot(SnapshotArgs),
    /// Say what is wrong with this machine's fabric, with evidence and fix
    Doctor(DoctorArgs),
    /// Say what an error line of NCCL, UCX, libfabric, perftest or the kernel means
    Explain(ExplainArgs),
    /// Serve this machine's metrics to Prometheus: RDMA ports, GPUs, CPUs, memory
    Exporter(ExporterArgs),
    /// Watch ports and GPUs live in the terminal
    Top(TopArgs),
    /// Place units, alert rules and dashboards on this machine
    Install(InstallArgs),
    /// Print the environment that a job on this machine should have
    Env(EnvArgs),
    /// Run a command in that environment
    Exec(ExecArgs),
    /// Look at all hosts of a job at once, and mark where they differ
    Hosts(HostsArgs),
    /// Start a job on several hosts, and prove what transferred its data
    Launch(LaunchArgs),
    /// Plan or make what hosts need for jobs on the fabric
    Setup(SetupArgs),
    /// Serve, mount and prove a file system over RDMA
    Nfs(NfsArgs),
    /// Plan or make settings that make the fabric faster
    Tune(TuneArgs),
    /// List what was changed on this machine
    Changes(ChangesArgs),
    /// Revert changes
    Revert(RevertArgs),
    /// Print manifests for Kubernetes and OpenShift
    K8s(K8sArgs),
    /// Capture an RDMA device's packets
    Capture(CaptureArgs),
    /// Show, check and document the settings
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder
    Man(ManArgs),
}

impl Command {
    /// Whether it makes links itself, and starts no programs of others.
    fn makes_links(&self) -> bool {
        match self {
            Command::Serve(_) | Command::Kv(_) | Command::Connect(_) => true,
            Command::Bench(args) => args.makes_links(),
            _ => false,
        }
    }
}

/// Runs what was typed.
pub(crate) fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = &cli.global.with_environment();
    if cli.version {
        return version::run(global);
    }
    let Some(command) = cli.command else { return help() };
    if command.makes_links() {
        links::environment::prepare();
    }
    match command {
        Command::Serve(args) => serve::run(global, &args),
        Command::Connect(args) => connect::run(global, &args),
        Command::Bench(args) => bench::run(global, &args),
        Command::Kv(args) => kv::run(global, &args),
        Command::Token(args) => token::run(&args),
        Command::Devices(args) => devices::run(global, &args),
        Command::Topo(args) => topo::run(global, &args),
        Command::Snapshot(args) => snapshot::run(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Explain(args) => explain::run(global, &args),
        Command::Exporter(args) => exporter::run(global, &args),
        Command::Top(args) => top::run(global, &args),
        Command::Hosts(args) => hosts::run(global, &args),
        Command::Launch(args) => launch::run(global, &args),
        Command::Setup(args) => setup::run(global, &args),
        Command::Nfs(args) => nfs::run(global, &args),
        Command::Install(args) => install::run(global, &args),
        Command::Env(args) => env::run(global, &args),
        Command::Exec(args) => exec::run(global, &args),
        Command::Tune(args) => tune::run(global, &args),
        Command::Changes(args) => changes::run(global, &args),
        Command::Revert(args) => revert::run(global, &args),
        Command::K8s(args) => k8s::run(global, &args),
        Command::Capture(args) => capture::run(global, &args),
        Command::Config(args) => config::run(global, &args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Nothing was asked for: the help, and the exit code of wrong use.
fn help() -> Result<Exit, Failure> {
    output::note(&help::command().render_help().to_string());
    Ok(Exit::Usage)
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no (a problem was found, a thing is missing, the peer refuses)
  2  wrong use
  3  failure (could not look, could not start, could not reach)

Answers go to stdout, everything else to stderr.";
