//! One command on a host, and what it said.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::shell::Shell;
use crate::output::Failure;

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
    shell: Shell,
    /// None: by a signal.
    pub(crate) code: Option<i32>,
    /// Its stdout, in a file without a name: nothing is left of it, however we end.
    output: File,
    /// Its stderr, or that of what started it there.
    pub(crate) complaint: String,
}

/// Runs a script there. Output goes to files, so that no pipe can fill up and stand still.
pub(crate) fn ask(
    shell: &Shell,
    script: &str,
    input: Option<File>,
    limits: Limits,
) -> Result<Answer, Failure> {
    let wrong = |error: io::Error| {
        Failure::failed(format!("run {} to {}: {error}", shell.program(), shell.host()))
    };
    let output = tempfile::tempfile().map_err(wrong)?;
    let mut complaint = tempfile::tempfile().map_err(wrong)?;
    let mut command = shell.command(&[], script);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.try_clone().map_err(wrong)?);
    command.stderr(complaint.try_clone().map_err(wrong)?);
    let mut child = command.spawn().map_err(wrong)?;
    let code = wait(&mut child, shell, &[&output, &complaint], limits)?;
    let mut text = Vec::new();
    complaint.rewind().map_err(wrong)?;
    complaint.take(LONGEST_COMPLAINT).read_to_end(&mut text).map_err(wrong)?;
    let complaint = String::from_utf8_lossy(&text).into_owned();
    Ok(Answer { shell: shell.clone(), code, output, complaint })
}

fn wait(
    child: &mut Child,
    shell: &Shell,
    written: &[&File],
    limits: Limits,
) -> Result<Option<i32>, Failure> {
    let (begun, program) = (Instant::now(), shell.program());
    loop {
        let ended = child
            .try_wait()
            .map_err(|error| Failure::failed(format!("wait for {program}: {error}")))?;
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
            return Err(Failure::failed(format!("{} {why}; {program} was ended", shell.host())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Answer {
    /// The answer of a command that did its work; of one that did not, why. `what` names it.
    pub(crate) fn done(self, what: &str) -> Result<Self, Failure> {
        self.failure(what).map_or(Ok(self), Err)
    }

    /// Why the command did not do its work, if it did not.
    pub(crate) fn failure(&self, what: &str) -> Option<Failure> {
        let (host, said) = (self.shell.host(), self.said());
        let why = match self.code {
            Some(0) => return None,
            Some(SSH_FAILED) => {
                format!("{} to {host}: {said}; try `{}`", self.shell.program(), self.shell.trial())
            }
            Some(code) => format!("`{what}` on {host} ended with code {code}: {said}"),
            None => format!("`{what}` on {host} ended with a signal: {said}"),
        };
        Some(Failure::failed(why))
    }

    /// The last line of its complaint, where programs say why.
    pub(crate) fn said(&self) -> String {
        let mut lines = self.complaint.lines().rev();
        doctor::one_line(lines.find(|line| !line.trim().is_empty()).unwrap_or_default())
    }

    /// The JSON that it wrote: a shell there may greet before anything else.
    pub(crate) fn json(self) -> Result<Vec<u8>, Failure> {
        let mut bytes = self.bytes()?;
        let mut line = 0;
        while line < bytes.len() && !matches!(bytes[line], b'{' | b'[') {
            let end = bytes[line..].iter().position(|byte| *byte == b'\n');
            line = end.map_or(bytes.len(), |end| line + end + 1);
        }
        Ok(bytes.split_off(line))
    }

    fn bytes(mut self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let read = self.output.rewind().and_then(|()| self.output.read_to_end(&mut bytes));
        read.map_err(|error| {
            Failure::failed(format!("read what {} said: {error}", self.shell.host()))
        })?;
        Ok(bytes)
    }

    /// What it wrote, as text.
    pub(crate) fn text(self) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
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
        let failure = answer.failure("x").expect("a failure").to_string();
        assert_eq!(failure, "`x` on localhost ended with code 4: why");
        assert_eq!((answer.code, answer.text().expect("text").as_str()), (Some(4), "out\n"));
    }

    #[test]
    fn json_is_found_behind_a_greeting() {
        let said = |script: &str| {
            let answer = here(script, Limits::default()).expect("an answer");
            String::from_utf8(answer.json().expect("bytes")).expect("text")
        };
        assert_eq!(said("echo hello {you}; echo; echo '{\"a\":1}'"), "{\"a\":1}\n");
        assert_eq!(said("echo '[]'"), "[]\n");
        assert_eq!(said("echo hello; printf there"), "");
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
