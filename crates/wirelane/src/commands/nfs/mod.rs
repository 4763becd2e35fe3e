//! `wirelane nfs`: serve, mount and verify directories over RDMA, and revert that.

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
    /// Serve a directory over RDMA
    Server(server::ServerArgs),
    /// Mount a directory of a server over RDMA
    Client(client::ClientArgs),
    /// Verify that a mount uses RDMA, and compare its speed with TCP
    Verify(verify::VerifyArgs),
    /// Revert the changes of `nfs server` and `nfs client`: mounts, exports, listeners, files
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

/// The name of these commands in the journal.
const COMMAND: &str = "nfs";
