//! The output of another program, with a timeout and a limit.
#![allow(clippy::disallowed_methods, reason = "the one file that starts programs, which only read")]

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The output of a program.
pub(super) struct ProgramOutput {
    pub(super) text: String,
    pub(super) succeeded: bool,
}

/// Runs a program from the system's folders; `None` if it is not installed.
pub(super) fn run(name: &str, arguments: &[&str]) -> Option<ProgramOutput> {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let path =
        folders.iter().map(|folder| format!("{folder}/{name}")).find(|path| is_file(path))?;
    let mut command = Command::new(path);
    command.args(arguments).env_clear().env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = output(&mut child);
    let succeeded = output.is_some() && has_succeeded(&mut child);
    // This fails if it has already ended.
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    Some(ProgramOutput { text, succeeded })
}

fn is_file(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file())
}

/// All its output, unless it exceeds the timeout or the limit.
fn output(child: &mut Child) -> Option<Vec<u8>> {
    let mut pipe = child.stdout.take()?;
    let deadline = Instant::now() + TIMEOUT;
    let (mut output, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while output.len() <= MAX_OUTPUT_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok()?;
        let mut ready = [PollFd::new(&pipe, PollFlags::IN)];
        if poll(&mut ready, Some(&left)).ok()? == 0 {
            return None;
        }
        match pipe.read(&mut piece).ok()? {
            0 => return Some(output),
            length => output.extend(&piece[..length]),
        }
    }
    None
}

/// Waits for its end: it has already closed its output.
fn has_succeeded(child: &mut Child) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return false,
        }
    }
    false
}

const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_OUTPUT_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_killed_at_their_limits() {
        let output = run("echo", &["hello"]).expect("every system has echo");
        assert!(output.succeeded && output.text == "hello\n");
        assert!(!run("sleep", &["600"]).expect("every system has sleep").succeeded);
        assert!(!run("yes", &[]).expect("every system has yes").succeeded);
        assert!(run("no-such-program", &[]).is_none());
    }
}
