//! `wirelane exec`: runs a command with the environment of `wirelane env`.
//!
//! The command replaces this process, so that it has its own signals and exit code.

mod memlock;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use jobs::environment::{EnvironmentPlan, Format, Mode};

use crate::commands::env::JobArgs;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Print the variables and the command as a shell script, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// The command and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

pub(crate) fn run(_global: &Global, args: &ExecArgs) -> Result<Exit, Failure> {
    let planned = args.job.plan()?;
    args.job.report(&planned.plan.devices, &planned.plan.notes);
    if args.dry_run {
        output::answer(&script(&planned.plan, &args.command))?;
        return Ok(Exit::Done);
    }
    if planned.plan.mode == Mode::Rdma
        && let Some(warning) = memlock::raise(planned.confinement).warning()
    {
        output::warning(&warning);
    }
    Err(replace(&planned.plan, &args.command))
}

fn script(plan: &EnvironmentPlan, command: &[OsString]) -> String {
    let words = command.iter().map(|word| jobs::environment::shell_word(&word.to_string_lossy()));
    let words: Vec<String> = words.collect();
    format!("{}exec {}\n", plan.text(Format::Sh), words.join(" "))
}

/// Returns only if the command cannot be started, with the exit codes of shells.
fn replace(plan: &EnvironmentPlan, command: &[OsString]) -> Failure {
    let [program, arguments @ ..] = command else {
        return Failure::usage("exec: no command");
    };
    let changed = plan.variables.iter().filter(|variable| !variable.is_users);
    let variables = changed.map(|variable| (&variable.name, &variable.value));
    let error = Command::new(program).args(arguments).envs(variables).exec();
    let name = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::command(127, format!("exec {name}: not found (or the interpreter it names)"))
        }
        _ => Failure::command(126, format!("exec {name}: cannot be run: {error}")),
    }
}
