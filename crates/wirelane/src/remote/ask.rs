//! One command on a host, and what it said.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::shell::Shell;
use crate::exit::Failure;

/// How long an answer may take, and how long it may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) bytes: u64,
}

/// For what a shell answers soon.
impl Default for Limits {
    fn default() -> Self {
        Limits { time: Duration::from_secs(60), bytes: 1 << 20 }
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    host: String,
    /// None: by a signal.
    pub(crate) code: Option<i32>,
    /// Its stdout.
    pub(crate) output: tempfile::NamedTempFile,
    /// Its stderr, or ssh's.
    pub(crate) complaint: String,
}

/// Runs a script there. Output goes to files, so that no pipe can fill up and stand still.
pub(crate) fn ask(
    shell: &Shell,
    script: &str,
    input: Option<File>,
    limits: Limits,
) -> Result<Answer, Failure> {
    let host = shell.host();
    let wrong = |error: io::Error| Failure::failed(format!("run ssh to {host}: {error}"));
    let output = tempfile::NamedTempFile::new().map_err(wrong)?;
    let mut complaint = tempfile::tempfile().map_err(wrong)?;
    let mut command = shell.command(&[], script);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.reopen().map_err(wrong)?);
    command.stderr(complaint.try_clone().map_err(wrong)?);
    let mut child = command.spawn().map_err(wrong)?;
    let code = wait(&mut child, host, &[output.as_file(), &complaint], limits)?;
    let mut text = Vec::new();
    complaint.rewind().map_err(wrong)?;
    complaint.take(LONGEST_COMPLAINT).read_to_end(&mut text).map_err(wrong)?;
    let complaint = String::from_utf8_lossy(&text).into_owned();
    Ok(Answer { host: host.to_owned(), code, output, complaint })
}

fn wait(
    child: &mut Child,
    host: &str,
    written: &[&File],
    limits: Limits,
) -> Result<Option<i32>, Failure> {
    let begun = Instant::now();
    loop {
        let ended =
            child.try_wait().map_err(|error| Failure::failed(format!("wait for ssh: {error}")))?;
        if let Some(status) = ended {
            return Ok(status.code());
        }
        let is_long = |file: &&File| file.metadata().is_ok_and(|file| file.len() > limits.bytes);
        let long = written.iter().any(is_long);
        if long || begun.elapsed() > limits.time {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            let why = match long {
                true => format!("sends more than the {} MiB that are read", limits.bytes >> 20),
                false => format!("does not answer within {} s", limits.time.as_secs()),
            };
            return Err(Failure::failed(format!("{host} {why}; ssh was ended")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Answer {
    /// The answer of a command that did its work; of one that did not, why. `what` names it.
    pub(crate) fn done(self, what: &str) -> Result<Self, Failure> {
        let (host, said) = (&self.host, self.said());
        match self.code {
            Some(0) => Ok(self),
            Some(SSH_FAILED) => {
                Err(Failure::failed(format!("ssh to {host}: {said}; try `ssh {host} true`")))
            }
            code => {
                let code = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                Err(Failure::failed(format!("`{what}` on {host} ended with {code}: {said}")))
            }
        }
    }

    /// The last line of its complaint, where programs say why.
    pub(crate) fn said(&self) -> String {
        let mut lines = self.complaint.lines().rev();
        ops::doctor::one_line(lines.find(|line| !line.trim().is_empty()).unwrap_or_default())
    }

    /// What it wrote, as text.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let text = std::fs::read(self.output.path());
        let text = text
            .map_err(|error| Failure::failed(format!("read what {} said: {error}", self.host)))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// What ssh ends with when it is ssh that failed.
const SSH_FAILED: i32 = 255;
const LONGEST_COMPLAINT: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn here(script: &str, limits: Limits) -> Result<Answer, Failure> {
        ask(&Shell::on("localhost").expect("a name"), script, None, limits)
    }

    #[test]
    fn a_command_is_heard_out() {
        let answer = here("echo out; echo why >&2; exit 4", Limits::default()).expect("an answer");
        assert_eq!((answer.code, answer.text().expect("text").as_str()), (Some(4), "out\n"));
        let failure = answer.done("x").expect_err("a failure").to_string();
        assert_eq!(failure, "`x` on localhost ended with code 4: why");
    }

    #[test]
    fn what_never_ends_is_ended() {
        let soon = Limits { time: Duration::from_millis(50), ..Limits::default() };
        let failure = here("exec sleep 60", soon).expect_err("no answer").to_string();
        assert!(failure.contains("does not answer"), "{failure}");
        let little = Limits { bytes: 4096, ..Limits::default() };
        let failure = here("exec cat /dev/zero", little).expect_err("too much").to_string();
        assert!(failure.contains("sends more"), "{failure}");
    }
}
