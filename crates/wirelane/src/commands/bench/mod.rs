//! `wirelane bench`: measures what the fabric gives, and says whether that is what it should give.
//!
//! One file for each subcommand. `target.rs` finds the other end, `args.rs` has what several of them ask, `facts.rs` what
//! this host tells of itself; the measuring is in crate `measure`, its results in `report`, the judging in `doctor::verdict`.

mod args;
mod child;
mod compare;
mod csv;
mod expect;
mod facts;
mod history;
mod mesh;
mod nccl;
mod perftest;
mod report;
mod run;
mod serve;
mod target;
mod text;
mod torch;

use ::report::Test;
use clap::{Args, Subcommand};
use measure::Transports;

use crate::links::endpoint::{self, AuthMethod};
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Bandwidth: many operations in flight
    Bw(run::MeasureArgs),
    /// Latency: one operation after the other
    Lat(run::MeasureArgs),
    /// Rate: as many small operations as there can be
    Rate(run::MeasureArgs),
    /// TCP, and RDMA by each pair of ports, in one table
    Compare(compare::CompareArgs),
    /// Every pair of several hosts; names the slow link or host
    Mesh(mesh::MeshArgs),
    /// Run nccl-tests or read what it printed, and say whether that is what the machine should give
    Nccl(nccl::NcclArgs),
    /// The same by PyTorch, where there is no nccl-tests
    Torch(torch::TorchArgs),
    /// Serve measurements that others start; takes its settings from them
    Serve(serve::ServeArgs),
    /// Make a page with plots of saved results
    Report(report::ReportArgs),
    /// List earlier results, and say what got worse
    History(history::HistoryArgs),
}

impl BenchArgs {
    /// Whether it makes links itself, and starts no programs of others.
    pub(crate) fn makes_links(&self) -> bool {
        !matches!(self.command, BenchCommand::Nccl(_) | BenchCommand::Torch(_))
    }
}

pub(crate) fn run(global: &Global, args: &BenchArgs) -> Result<Exit, Failure> {
    match &args.command {
        BenchCommand::Bw(args) => run::run(global, Test::Bandwidth, args),
        BenchCommand::Lat(args) => run::run(global, Test::Latency, args),
        BenchCommand::Rate(args) => run::run(global, Test::Rate, args),
        BenchCommand::Compare(args) => compare::run(global, args),
        BenchCommand::Mesh(args) => mesh::run(global, args),
        BenchCommand::Nccl(args) => nccl::run(global, args),
        BenchCommand::Torch(args) => torch::run(global, args),
        BenchCommand::Serve(args) => serve::run(global, args),
        BenchCommand::Report(args) => report::run(args),
        BenchCommand::History(args) => history::run(args),
    }
}

/// What this host has, as the settings say.
fn ways(global: &Global, settings: &Settings) -> Result<Transports, Failure> {
    let links = endpoint::settings(global, settings, AuthMethod::TokensOrTickets)?;
    Ok(Transports {
        library: links.library,
        device_request: links.device_request,
        verbs: links.verbs,
        ofi_provider: links.ofi_provider,
        ofi: links.ofi,
        tcp: links.tcp,
    })
}

/// What cannot be meant is the user's; all else could not be done.
impl From<measure::Error> for Failure {
    fn from(error: measure::Error) -> Self {
        match error.kind {
            measure::Kind::Misuse => Failure::usage(error.to_string()),
            measure::Kind::Refused | measure::Kind::Gone => Failure::failed(error.to_string()),
        }
    }
}

impl From<::report::PlanError> for Failure {
    fn from(error: ::report::PlanError) -> Self {
        measure::Error::from(error).into()
    }
}

/// Where `bench serve` listens unless told otherwise.
const PORT: u16 = 50052;

const EXIT_CODES: &str = "\
Exit codes:
  0  measured, and as good as --expect asks
  1  measured, and not as good as --expect asks
  2  wrong use
  3  could not measure";
