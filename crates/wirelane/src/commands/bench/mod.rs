//! `wirelane bench`: measures bandwidth, latency and message rate, and compares them with what the hardware should
//! reach.
//!
//! One file per subcommand. `target.rs` finds or starts the server, `args.rs` has the shared arguments, `facts.rs` the
//! facts about this host. Measuring is in crate `measure`, results are in `report`, verdicts in `doctor::evaluation`.

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
use crate::output::{Exit, Failure, exit};
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
    /// Measure bandwidth: many operations in flight
    Bw(run::MeasureArgs),
    /// Measure latency: one operation at a time
    Lat(run::MeasureArgs),
    /// Measure message rate: as many small operations as possible
    Rate(run::MeasureArgs),
    /// Compare TCP with RDMA over each pair of ports, in one table
    Compare(compare::CompareArgs),
    /// Measure every pair of several hosts; names the slow pair or host
    Mesh(mesh::MeshArgs),
    /// Run nccl-tests or read its log, and compare the result with what the machine should reach
    Nccl(nccl::NcclArgs),
    /// The same with PyTorch, where nccl-tests is not installed
    Torch(torch::TorchArgs),
    /// Serve measurements for clients, which choose the settings
    Serve(serve::ServeArgs),
    /// Write a page with plots of saved results
    Report(report::ReportArgs),
    /// List earlier results and report regressions
    History(history::HistoryArgs),
}

impl BenchArgs {
    /// Whether it opens links itself; `nccl` and `torch` run other programs.
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

/// The transports of this host, as configured.
fn transports(global: &Global, settings: &Settings) -> Result<Transports, Failure> {
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

/// An invalid plan is a usage error; everything else is a failure to measure.
impl From<measure::Error> for Failure {
    fn from(error: measure::Error) -> Self {
        let text = exit::with_options(error.to_string(), &error);
        match error.kind {
            measure::ErrorKind::Misuse => Failure::usage(text),
            measure::ErrorKind::Refused | measure::ErrorKind::Gone => Failure::failed(text),
        }
    }
}

impl From<::report::PlanError> for Failure {
    fn from(error: ::report::PlanError) -> Self {
        measure::Error::from(error).into()
    }
}

/// The default port of `bench serve`.
const PORT: u16 = 50052;

const EXIT_CODES: &str = "\
Exit codes:
  0  measured, and --expect is met
  1  measured, and --expect is not met
  2  invalid usage
  3  could not measure";
