//! The program: parses arguments, runs a command, and exits.
//!
//! `commands` has a file or folder for each command: arguments, a call, rendering. `settings` reads the settings
//! file, `output` writes to stdout and stderr and has the exit codes. Beside them: `arguments` that several commands share,
//! `links` as configured by the settings, `watch` for periodic readings of a machine, and the `web_config` file of the exporter.
//! No other crate reads a settings file, or a variable made for this program; variables for libfabric are set in `links::environment`.
//!
//! Start at [`main`].

mod arguments;
mod commands;
mod links;
mod logging;
mod monitoring;
mod output;
mod route;
pub mod settings;
mod signals;
mod timeout;
mod web_config;

use clap::FromArgMatches;

use std::ffi::OsString;

use commands::Cli;
pub use commands::help::command;
use commands::help::command_for;

/// Runs the program with the process's own arguments.
pub fn main() -> ! {
    signals::ignore_file_size_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let matches = command_for(&arguments).try_get_matches_from(&arguments);
    let outcome = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => commands::run(cli),
        Err(error) => output::usage(&error),
    };
    // A library that hangs while it is loaded, such as a GPU's, would block an ordinary exit.
    output::exit::immediately(outcome)
}
