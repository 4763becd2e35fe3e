//! Runs other programs with a timeout.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Error;

/// How a program ended, and its output.
pub(super) struct ProgramOutput {
    pub(super) succeeded: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a program. If it fails, its stderr is in the error.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<(), Error> {
    run_within(TIMEOUT, program, arguments)
}

/// The same, with another timeout.
pub(super) fn run_within(
    timeout: Duration,
    program: &str,
    arguments: &[&str],
) -> Result<(), Error> {
    let (status, output) = spawn_and_wait(timeout, program, arguments)?;
    if status.success() {
        return Ok(());
    }
    let command = command_line(program, arguments);
    Err(Error::failed(format!("{command}: {status}: {}", output.stderr.trim())))
}

/// The output of a program; a missing program or a timeout is an error, a failed exit is not.
pub(super) fn output(program: &str, arguments: &[&str]) -> Result<ProgramOutput, Error> {
    spawn_and_wait(TIMEOUT, program, arguments).map(|(_, output)| output)
}

fn spawn_and_wait(
    timeout: Duration,
    program: &str,
    arguments: &[&str],
) -> Result<(ExitStatus, ProgramOutput), Error> {
    let command_line = command_line(program, arguments);
    let failed = |error: std::io::Error| Error::call("run", &command_line, error);
    // Files, not pipes: a pipe could fill up, and a grandchild could keep it open.
    let (out, err) = (file().map_err(failed)?, file().map_err(failed)?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(out.try_clone().map_err(failed)?).stderr(err.try_clone().map_err(failed)?);
    // Untranslated output, since it is parsed, and no interactive prompts of packages.
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    // Administrator's programs are not on every root's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    let mut child = command.spawn().map_err(failed)?;
    let status = wait(&mut child, timeout, &command_line)?;
    let output = ProgramOutput {
        succeeded: status.success(),
        stdout: text(out, MAX_STDOUT_BYTES),
        stderr: text(err, MAX_STDERR_BYTES),
    };
    Ok((status, output))
}

fn wait(child: &mut Child, timeout: Duration, command_line: &str) -> Result<ExitStatus, Error> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait().map_err(|error| Error::call("wait for", command_line, error))? {
            Some(status) => return Ok(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = timeout.as_secs();
                return Err(Error::failed(format!("{command_line}: timed out after {seconds} s")));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn command_line(program: &str, arguments: &[&str]) -> String {
    format!("{program} {}", arguments.join(" "))
}

/// An anonymous file.
fn file() -> std::io::Result<File> {
    Ok(memfd_create("wirelane", MemfdFlags::CLOEXEC)?.into())
}

/// A file's content; invalid UTF-8 is replaced.
fn text(mut file: File, max_bytes: u64) -> String {
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.take(max_bytes).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_STDOUT_BYTES: u64 = 4 << 20;
const MAX_STDERR_BYTES: u64 = 4096;
