//! This program on another host: the one there, or this one, sent along and removed.

use std::fs::File;

use jobs::job::shell_word;

use super::ask::{Answer, Limits, ask};
use super::error::Error;
use super::shell::Shell;

/// Runs `wirelane` there with these words. Where there is none, this one is sent along: into a folder of its own, which is
/// removed when the shell that ran it ends, however it ends. `progress` hears of that.
pub fn wirelane(
    shell: &Shell,
    words: &[&str],
    limits: Limits,
    progress: Progress<'_>,
) -> Result<Answer, Error> {
    let host = shell.host();
    // The user's shell there may be of another kind.
    let script = format!("exec sh -c {}", shell_word(&format!("wirelane {}", line(words))));
    let answer = ask(shell, &script, None, limits)?;
    if answer.code != Some(NOT_FOUND) {
        return Ok(answer);
    }
    progress(&format!("{host} has no wirelane: sending this one along…"));
    let (own, length) = own_program()?;
    let answer = ask(shell, &sent_along(length, &line(words)), Some(own), limits)?;
    match answer.code {
        Some(CANNOT_RUN) => {
            Err(Error::CannotRun { host: host.to_owned(), reason: answer.reason() })
        }
        _ => Ok(answer),
    }
}

/// Takes lines for the person who waits.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);

/// This program's file, and its length.
pub fn own_program() -> Result<(File, u64), Error> {
    let action = "read this program to send it along";
    let wrong = |source| Error::Local { action: action.to_owned(), source };
    let file = std::env::current_exe().and_then(File::open).map_err(wrong)?;
    let length = file.metadata().map_err(wrong)?.len();
    Ok((file, length))
}

/// A script that takes this program from the first bytes of its input, and runs it with `words`, which are quoted already.
/// What follows on its input is the program's.
pub fn sent_along(length: u64, words: &str) -> String {
    let script = format!(
        "dir=$(mktemp -d) || exit 3; trap 'rm -rf \"$dir\"' EXIT; trap 'exit 3' HUP INT TERM; \
         head -c {length} > \"$dir/wirelane\" && chmod 700 \"$dir/wirelane\" && \
         \"$dir/wirelane\" {words}"
    );
    // The user's shell there may be of another kind.
    format!("exec sh -c {}", shell_word(&script))
}

fn line(words: &[&str]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// The shell's word for: no such program.
const NOT_FOUND: i32 = 127;
/// The shell's word for: there is one, but it does not run.
const CANNOT_RUN: i32 = 126;
