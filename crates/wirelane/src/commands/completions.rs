//! `wirelane completions`: a shell's completion script, from the definition of the command line, `commands::Cli`.

use clap::{Args, Command, CommandFactory};
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
    let (mut script, mut command) = (Vec::new(), Cli::command());
    clap_complete::generate(args.shell, &mut command, "wirelane", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Fish {
        script.push_str(&fish_arguments(&command));
    }
    output::answer(&script)?;
    Ok(Exit::Done)
}

/// The values of arguments without a name, such as the doctor's checks: clap's script for fish lacks them.
fn fish_arguments(command: &Command) -> String {
    let mut lines = String::new();
    for subcommand in command.get_subcommands() {
        let when = format!("__fish_wirelane_using_subcommand {}", subcommand.get_name());
        add_fish_arguments(subcommand, &when, &mut lines);
    }
    lines
}

/// The same for a command that the condition selects, and its subcommands.
fn add_fish_arguments(command: &Command, when: &str, lines: &mut String) {
    let values = command.get_positionals().flat_map(|argument| argument.get_possible_values());
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    if !names.is_empty() {
        let names = names.join(" ");
        lines.push_str(&format!("complete -c wirelane -n \"{when}\" -f -a \"{names}\"\n"));
    }
    for subcommand in command.get_subcommands() {
        let when = format!("{when}; and __fish_seen_subcommand_from {}", subcommand.get_name());
        add_fish_arguments(subcommand, &when, lines);
    }
}
