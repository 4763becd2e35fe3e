//! `wirelane hosts`: compares the hosts of a job before it starts.

mod check;
mod host_list;
mod text;
mod yaml;

use clap::{Args, Subcommand};

use crate::output::{Exit, Failure};
use crate::settings::Global;
pub(crate) use host_list::HostListArgs;

#[derive(Debug, Args)]
pub(crate) struct HostsArgs {
    #[command(subcommand)]
    command: HostsCommand,
}

#[derive(Debug, Subcommand)]
enum HostsCommand {
    /// Read each host, and print a table with the differences marked
    Check(check::CheckArgs),
}

pub(crate) fn run(_global: &Global, args: &HostsArgs) -> Result<Exit, Failure> {
    match &args.command {
        HostsCommand::Check(args) => check::run(args),
    }
}
