//! `wirelane completions`: a shell's completion script, from the definition of the command line, `commands::Cli`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::commands::Cli;
use crate::output;
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wirelane", &mut script);
    output::answer(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
