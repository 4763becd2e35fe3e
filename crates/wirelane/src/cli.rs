//! What can be typed. Parsing only: nothing here opens, reads or asks.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::bench::BenchArgs;
use crate::capture::CaptureArgs;
use crate::changes::ChangesArgs;
use crate::config::command::ConfigArgs;
use crate::connect::ConnectArgs;
use crate::devices::DevicesArgs;
use crate::doctor::DoctorArgs;
use crate::env::EnvArgs;
use crate::exec::ExecArgs;
use crate::exit::{Exit, Failure};
use crate::explain::ExplainArgs;
use crate::exporter::ExporterArgs;
use crate::hosts::HostsArgs;
use crate::install::InstallArgs;
use crate::k8s::K8sArgs;
use crate::kv::KvArgs;
use crate::launch::LaunchArgs;
use crate::nfs::NfsArgs;
use crate::output;
use crate::revert::RevertArgs;
use crate::serve::ServeArgs;
use crate::setup::SetupArgs;
use crate::snapshot::SnapshotArgs;
use crate::token::TokenArgs;
use crate::top::TopArgs;
use crate::topo::TopoArgs;
use crate::tune::TuneArgs;
use crate::{completions::CompletionsArgs, man::ManArgs};

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

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Settings file; without it /etc/wirelane/wirelane.yaml is read if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// How much to log to stderr (default: the setting log_level)
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    /// How to write log lines
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Use this libibverbs instead of the system's; so does the variable WIRELANE_LIBIBVERBS
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libibverbs: Option<PathBuf>,

    /// Use this libfabric instead of EFA's or the system's; so does the variable WIRELANE_LIBFABRIC
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) libfabric: Option<PathBuf>,

    /// What the environment says of `--token-file`, which not every command has.
    #[arg(skip)]
    pub(crate) token_file: Option<PathBuf>,
}

impl Global {
    /// What the environment says where the command line said nothing; an empty variable is none.
    pub(crate) fn with_environment(mut self) -> Self {
        let named =
            |name| std::env::var_os(name).filter(|file| !file.is_empty()).map(PathBuf::from);
        self.libibverbs = self.libibverbs.or(named("WIRELANE_LIBIBVERBS"));
        self.libfabric = self.libfabric.or(named("WIRELANE_LIBFABRIC"));
        self.token_file = named("WIRELANE_TOKEN_FILE");
        self
    }
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
    /// Try a link to a peer: measure it, and say which way it goes and why
    Connect(ConnectArgs),
    /// Make tokens, by which a store knows its callers, and check files of them
    Token(TokenArgs),
    /// List the RDMA devices, their ports and GIDs
    Devices(DevicesArgs),
    /// Show how far GPUs and RDMA devices are from each other, and which belongs to which
    Topo(TopoArgs),
    /// Save everything that is read on this machine, to look at it elsewhere
    Snapshot(SnapshotArgs),
    /// Say what is wrong with this machine's fabric, with evidence and remedy
    Doctor(DoctorArgs),
    /// Say what an error line of NCCL, UCX, libfabric, perftest or the kernel means
    Explain(ExplainArgs),
    /// Serve this machine's metrics to Prometheus: RDMA ports, GPUs, processors, memory
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
    /// Start a job on several hosts, and prove what carried its data
    Launch(LaunchArgs),
    /// Plan or make what hosts need for jobs on the fabric
    Setup(SetupArgs),
    /// Serve, mount and prove a file system over RDMA
    Nfs(NfsArgs),
    /// Plan or make settings that make the fabric faster
    Tune(TuneArgs),
    /// List what was changed on this machine
    Changes(ChangesArgs),
    /// Take changes back
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
    pub(crate) fn makes_links(&self) -> bool {
        match self {
            Command::Serve(_) | Command::Kv(_) | Command::Connect(_) => true,
            Command::Bench(args) => args.makes_links(),
            _ => false,
        }
    }
}

/// How much to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How to write log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Nothing was asked for: the help, and the exit code of wrong use.
pub(crate) fn help() -> Result<Exit, Failure> {
    output::note(&Cli::command().render_help().to_string());
    Ok(Exit::Usage)
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no (a problem was found, a thing is missing, the peer refuses)
  2  wrong use
  3  failure (could not look, could not start, could not reach)

Answers go to stdout, everything else to stderr.";
