//! `wirelane nfs`: a folder served over RDMA, mounted, proven, and reverted.

mod client;
mod plan_apply;
mod remove;
mod server;
mod speed;
mod verify;

use clap::{Args, Subcommand};

use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(crate) struct NfsArgs {
    #[command(subcommand)]
    command: NfsCommand,
}

#[derive(Debug, Subcommand)]
enum NfsCommand {
    /// Serve a folder over RDMA to named clients
    Server(server::ServerArgs),
    /// Mount a folder of a server over RDMA
    Client(client::ClientArgs),
    /// Prove that a mount uses RDMA, and measure it beside TCP
    Verify(verify::VerifyArgs),
    /// Revert what `nfs server` and `nfs client` have made: mounts, exports, listeners, files
    Remove(remove::RemoveArgs),
}

pub(crate) fn run(_global: &Global, args: &NfsArgs) -> Result<Exit, Failure> {
    match &args.command {
        NfsCommand::Server(args) => server::run(args),
        NfsCommand::Client(args) => client::run(args),
        NfsCommand::Verify(args) => verify::run(args),
        NfsCommand::Remove(args) => remove::run(args),
    }
}

/// How the journal calls what is made here.
const COMMAND: &str = "nfs";
