//! The commands: one file or folder each.
//!
//! A command is its arguments, a call of a library, and the rendering of the result. Parsing arguments does no I/O.
//! `plans` is shared by the commands that change a machine.

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

/// Diagnose, measure, monitor and use RDMA: checks, benchmarks, metrics, job launcher, key-value store
#[derive(Debug, Parser)]
#[command(name = "wirelane", disable_version_flag = true, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Print the version, and whether RDMA is usable on this machine
    #[arg(short = 'V', long)]
    pub(crate) version: bool,

    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// A command and its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a key-value store for clients over links and gRPC, with status and metrics over HTTP
    Serve(ServeArgs),
    /// Put, get, list and delete values of a store, and measure it
    Kv(KvArgs),
    /// Measure the fabric, and compare the results with what the hardware should reach
    Bench(BenchArgs),
    /// Test a link to a peer: which transport it uses and why, its latency and bandwidth
    Connect(ConnectArgs),
    /// Create tokens for clients of a store, and check token files
    Token(TokenArgs),
    /// List RDMA devices, their ports and GIDs
    Devices(DevicesArgs),
    /// Show the PCIe distance between GPUs and RDMA devices, and the device of each GPU
    Topo(TopoArgs),
    /// Save everything that is read on this machine to a file, to be analysed elsewhere
    Snapshot(SnapshotArgs),
    /// Find problems of this machine's fabric, with evidence and fix
    Doctor(DoctorArgs),
    /// Explain an error line of NCCL, UCX, libfabric, perftest or the kernel
    Explain(ExplainArgs),
    /// Export this machine's metrics to Prometheus: RDMA ports, GPUs, CPUs, memory
    Exporter(ExporterArgs),
    /// Watch ports and GPUs live in the terminal
    Top(TopArgs),
    /// Install systemd units, alert rules and dashboards on this machine
    Install(InstallArgs),
    /// Print the environment variables for a job on this machine
    Env(EnvArgs),
    /// Run a command with the environment of `wirelane env`
    Exec(ExecArgs),
    /// Compare the hosts of a job
    Hosts(HostsArgs),
    /// Start a job on several hosts, and report whether RDMA transferred its data
    Launch(LaunchArgs),
    /// Plan or apply what hosts need for jobs on the fabric
    Setup(SetupArgs),
    /// Serve, mount and verify NFS over RDMA
    Nfs(NfsArgs),
    /// Plan or apply settings that make the fabric faster
    Tune(TuneArgs),
    /// List the changes made to this machine
    Changes(ChangesArgs),
    /// Revert changes
    Revert(RevertArgs),
    /// Print manifests for Kubernetes and OpenShift
    K8s(K8sArgs),
    /// Capture packets of an RDMA device
    Capture(CaptureArgs),
    /// Show and check settings
    Config(ConfigArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the manual pages to a directory
    Man(ManArgs),
}

impl Command {
    /// Whether it opens links itself, and does not start other programs.
    fn makes_links(&self) -> bool {
        match self {
            Command::Serve(_) | Command::Kv(_) | Command::Connect(_) => true,
            Command::Bench(args) => args.makes_links(),
            _ => false,
        }
    }
}

/// Runs the command.
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

/// Without a command: the help, and the exit code of a usage error.
fn help() -> Result<Exit, Failure> {
    output::note(&help::command().render_help().to_string());
    Ok(Exit::Usage)
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  negative result (a problem was found, something is missing, the peer refused)
  2  usage error
  3  failure (could not read, start or connect)

Results go to stdout, everything else to stderr.";
