//! This program on another host: the installed one, or a temporary copy of this one.

use std::fs::File;

use jobs::environment::shell_word;

use super::command::{Answer, Limits, run_script};
use super::error::Error;
use super::shell::Shell;

/// Runs `wirelane` on the host with these arguments. If it is not installed, this program is copied to a temporary folder, which is
/// removed when the shell that runs it ends, however it ends; `progress` gets a line about that.
pub fn wirelane(
    shell: &Shell,
    arguments: &[&str],
    limits: Limits,
    progress: Progress<'_>,
) -> Result<Answer, Error> {
    let host = shell.host();
    // The user's login shell may not be a POSIX shell.
    let script = format!("exec sh -c {}", shell_word(&format!("wirelane {}", line(arguments))));
    let answer = run_script(shell, &script, None, limits)?;
    if answer.code != Some(NOT_FOUND) {
        return Ok(answer);
    }
    progress(&format!("{host} has no wirelane: copying this program…"));
    let (own, length) = own_program()?;
    let answer = run_script(shell, &upload_script(length, &line(arguments)), Some(own), limits)?;
    match answer.code {
        Some(CANNOT_RUN) => {
            Err(Error::CannotRun { host: host.to_owned(), reason: answer.reason() })
        }
        _ => Ok(answer),
    }
}

/// Called with progress messages for the user.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);

/// This program's file, and its length.
pub fn own_program() -> Result<(File, u64), Error> {
    let action = "read this program to copy it";
    let failed = |source| Error::Local { action: action.to_owned(), source };
    let file = std::env::current_exe().and_then(File::open).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok((file, length))
}

/// A script that reads this program from the first bytes of its input, and runs it with `arguments`, which are quoted already.
/// The rest of its input is the program's.
pub fn upload_script(length: u64, arguments: &str) -> String {
    let script = format!(
        "dir=$(mktemp -d) || exit 3; trap 'rm -rf \"$dir\"' EXIT; trap 'exit 3' HUP INT TERM; \
         head -c {length} > \"$dir/wirelane\" && chmod 700 \"$dir/wirelane\" && \
         \"$dir/wirelane\" {arguments}"
    );
    // The user's login shell may not be a POSIX shell.
    format!("exec sh -c {}", shell_word(&script))
}

fn line(arguments: &[&str]) -> String {
    arguments.iter().map(|argument| shell_word(argument)).collect::<Vec<_>>().join(" ")
}

/// The shell's exit code for an unknown command.
const NOT_FOUND: i32 = 127;
/// The shell's exit code for a command that cannot be executed.
const CANNOT_RUN: i32 = 126;
