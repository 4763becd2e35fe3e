//! Other programs, run for a bounded time.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Error;

/// How a program ended, and what it said on stdout.
pub(super) struct ProgramOutput {
    pub(super) succeeded: bool,
    pub(super) text: String,
    /// What it said on stderr.
    pub(super) complaint: String,
}

/// Runs a program to its end. What it says on stderr is the reason if it fails.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<(), Error> {
    run_within(LIMIT, program, arguments)
}

/// The same, for one that may take longer.
pub(super) fn run_within(limit: Duration, program: &str, arguments: &[&str]) -> Result<(), Error> {
    let (status, said) = end(limit, program, arguments)?;
    if status.success() {
        return Ok(());
    }
    let shown = shown(program, arguments);
    Err(Error::failed(format!("{shown}: {status}: {}", said.complaint.trim())))
}

/// What a program answers; that it is not there, or does not end, is an error.
pub(super) fn ask(program: &str, arguments: &[&str]) -> Result<ProgramOutput, Error> {
    end(LIMIT, program, arguments).map(|(_, said)| said)
}

fn end(
    limit: Duration,
    program: &str,
    arguments: &[&str],
) -> Result<(ExitStatus, ProgramOutput), Error> {
    let shown = shown(program, arguments);
    let failed = |error: std::io::Error| Error::call("run", &shown, error);
    // Files, not pipes: nothing fills up while nobody reads, and no child of its own holds the end back.
    let (out, err) = (file().map_err(failed)?, file().map_err(failed)?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(out.try_clone().map_err(failed)?).stderr(err.try_clone().map_err(failed)?);
    // Words as they are parsed here, and no package that asks questions.
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    // Programs of the administrator, which not every root has on its path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    let mut child = command.spawn().map_err(failed)?;
    let status = wait(&mut child, limit, &shown)?;
    let said = ProgramOutput {
        succeeded: status.success(),
        text: text(out, LONGEST),
        complaint: text(err, LONGEST_COMPLAINT),
    };
    Ok((status, said))
}

fn wait(child: &mut Child, limit: Duration, shown: &str) -> Result<ExitStatus, Error> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|error| Error::call("wait for", shown, error))? {
            Some(status) => return Ok(status),
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::failed(format!("{shown}: no end after {} s", limit.as_secs())));
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}

fn shown(program: &str, arguments: &[&str]) -> String {
    format!("{program} {}", arguments.join(" "))
}

/// A file that has no name and is gone when it is closed.
fn file() -> std::io::Result<File> {
    Ok(memfd_create("wirelane", MemfdFlags::CLOEXEC)?.into())
}

/// What is not text is shown as well as it can be.
fn text(mut file: File, longest: u64) -> String {
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.take(longest).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: u64 = 4 << 20;
const LONGEST_COMPLAINT: u64 = 4096;
