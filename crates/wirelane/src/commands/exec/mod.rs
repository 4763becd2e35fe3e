//! `wirelane exec`: a command with that environment, in this very process.
//!
//! The command takes this process's place, so its signals and its exit code are its own.

mod memlock;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use jobs::job::{Format, Mode, Plan};

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
    args.job.tell(&planned.plan.devices, &planned.plan.notes);
    if args.dry_run {
        output::answer(&script(&planned.plan, &args.command))?;
        return Ok(Exit::Done);
    }
    if planned.plan.mode == Mode::Rdma
        && let Some(complaint) = memlock::raise(planned.place).warning()
    {
        output::warning(&complaint);
    }
    Err(replace(&planned.plan, &args.command))
}

fn script(plan: &Plan, command: &[OsString]) -> String {
    let words = command.iter().map(|word| jobs::job::shell_word(&word.to_string_lossy()));
    let words: Vec<String> = words.collect();
    format!("{}exec {}\n", plan.text(Format::Sh), words.join(" "))
}

/// Comes back only when the command cannot be started, with the codes that shells have for it.
fn replace(plan: &Plan, command: &[OsString]) -> Failure {
    let [program, arguments @ ..] = command else {
        return Failure::usage("exec: no command is given");
    };
    let ours = plan.settings.iter().filter(|setting| !setting.is_users);
    let variables = ours.map(|setting| (&setting.name, &setting.value));
    let error = Command::new(program).args(arguments).envs(variables).exec();
    let name = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::command(127, format!("exec {name}: not found (or the interpreter it names)"))
        }
        _ => Failure::command(126, format!("exec {name}: it cannot be run: {error}")),
    }
}
