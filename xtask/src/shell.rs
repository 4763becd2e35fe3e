//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

/// The root of this repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository")
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    // Cargo runs in the repository, so a relative path starts there.
    repository().join(target)
}

/// The cache for downloads, outside every checkout.
pub(crate) fn cache() -> Result<PathBuf, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|folder| folder.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("wirelane"))
}

/// The cargo that runs this task, in the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(repository());
    // CI builds once, so incremental files would be written for nothing.
    if is_ci() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// This program, to run another task of ours as a process.
pub(crate) fn task(arguments: &[&str]) -> Command {
    // Even if the build has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).current_dir(repository());
    command
}

/// Whether this runs in CI.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Runs a command with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", command_line(command)))
    }
}

/// Runs a command and returns stdout; stderr is part of the error.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    command.stdin(Stdio::null());
    let output = command.output().map_err(|error| not_started(command, &error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} ended with {}: {}",
            command_line(command),
            output.status,
            stderr.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The size of our terminal, as arguments of `stty`.
pub(crate) fn terminal_size() -> Result<String, Failure> {
    let output = Command::new("stty").arg("size").stdin(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("start stty: {error}"))?;
    let size = String::from_utf8_lossy(&output.stdout);
    match size.split_whitespace().collect::<Vec<_>>()[..] {
        [rows, columns] => Ok(format!("rows {rows} cols {columns}")),
        _ => Err("not a terminal".to_owned()),
    }
}

pub(crate) fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    format!("cannot start {}: {error}", command_line(command))
}

/// The command line for messages.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
