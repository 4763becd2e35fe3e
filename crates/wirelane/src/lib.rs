//! The one program: parse, run, exit code.
//!
//! `commands` holds what can be typed, a file or folder a command: arguments, a call, rendering. `settings` reads the settings
//! file, `output` is the only way to stdout and has the exit codes. Beside them: `arguments` that several commands take,
//! `links` as settings ask for them, what is `watch`ed, and the `web_config` file of the exporter. Nothing below this
//! crate reads the environment or a settings file; what libfabric reads of it, `links::environment` sets.
//!
//! Start at [`main`].

mod arguments;
mod commands;
mod links;
mod logging;
mod output;
mod route;
pub mod settings;
mod signals;
mod timeout;
mod watch;
mod web_config;

use clap::FromArgMatches;

use commands::Cli;

/// Runs the program with the process's own arguments.
pub fn main() -> ! {
    let typed = Cli::from_arg_matches(&commands::help::command().get_matches());
    let cli = typed.unwrap_or_else(|error| error.exit());
    // A library that hangs while it is loaded, as a GPU's may, would keep an orderly end from happening.
    output::exit::immediately(commands::run(cli))
}
