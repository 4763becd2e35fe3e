//! Other programs, run for a bounded time.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Error;

/// Runs a program to its end. What it says on stderr is the reason if it fails.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<(), Error> {
    let shown = format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Programs of the administrator, which not every root has on its path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    let mut child = command.spawn().map_err(|error| Error::call("run", &shown, error))?;
    let limit = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait().map_err(|error| Error::call("wait for", &shown, error))? {
            Some(status) => break status,
            None if Instant::now() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::failed(format!("{shown}: no end after {} s", LIMIT.as_secs())));
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        // A child of its own may hold the pipe open: no more is read than is there at its end.
        let _ = rustix::io::ioctl_fionbio(&stderr, true);
        let _ = stderr.take(LONGEST).read_to_string(&mut said);
    }
    Err(Error::failed(format!("{shown}: {status}: {}", said.trim())))
}

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: u64 = 4096;
