//! `wirelane token`: creates tokens and checks token files. Only `new` prints a token.

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
    /// Create a token, and print it as a line for the token files of the server and of the client
    New(new::NewArgs),
    /// Check a token file, and list its names and permissions; prints no token
    Check(check::CheckArgs),
}

pub(crate) fn run(args: &TokenArgs) -> Result<Exit, Failure> {
    match &args.command {
        TokenCommand::New(args) => new::run(args),
        TokenCommand::Check(args) => check::run(args),
    }
}
