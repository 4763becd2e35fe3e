//! `wirelane token`: makes tokens and checks files of them. No token is ever printed but by `new`.

mod check;
mod new;

use clap::{Args, Subcommand};

use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Print a line with a new token, for the server's token file and for the caller's own
    New(new::NewArgs),
    /// Say who is in a token file and what each may do, or what is wrong with it; shows no token
    Check(check::CheckArgs),
}

pub(crate) fn run(args: &TokenArgs) -> Result<Exit, Failure> {
    match &args.command {
        TokenCommand::New(args) => new::run(args),
        TokenCommand::Check(args) => check::run(args),
    }
}
