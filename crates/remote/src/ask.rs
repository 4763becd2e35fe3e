//! One command on a host, and its answer.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::error::Error;
use super::shell::Shell;

/// How long an answer may take, and how long it may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until the command has ended.
    pub time: Duration,
    /// On stdout, and on stderr.
    pub bytes: u64,
}

/// For what a shell answers soon.
impl Default for Limits {
    fn default() -> Self {
        Limits { time: Duration::from_secs(60), bytes: 1 << 20 }
    }
}

/// What a command wrote, and how it ended.
#[derive(Debug)]
pub struct Answer {
    shell: Shell,
    /// None: by a signal.
    pub code: Option<i32>,
    /// Its stdout, in a file without a name: nothing is left of it, however we end.
    output: File,
    /// Its stderr, or that of what started it there.
    pub stderr: String,
}

/// Runs a script there. Output goes to files, so that no pipe can fill up and stand still.
pub fn ask(
    shell: &Shell,
    script: &str,
    input: Option<File>,
    limits: Limits,
) -> Result<Answer, Error> {
    let wrong = |source| Error::start(shell, source);
    let output = tempfile::tempfile().map_err(wrong)?;
    let mut stderr = tempfile::tempfile().map_err(wrong)?;
    let mut command = shell.command(&[], script);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.try_clone().map_err(wrong)?);
    command.stderr(stderr.try_clone().map_err(wrong)?);
    let mut child = command.spawn().map_err(wrong)?;
    let code = wait(&mut child, shell, &[&output, &stderr], limits)?;
    let mut text = Vec::new();
    stderr.rewind().map_err(wrong)?;
    stderr.take(LONGEST_STDERR).read_to_end(&mut text).map_err(wrong)?;
    let stderr = String::from_utf8_lossy(&text).into_owned();
    Ok(Answer { shell: shell.clone(), code, output, stderr })
}

fn wait(
    child: &mut Child,
    shell: &Shell,
    written: &[&File],
    limits: Limits,
) -> Result<Option<i32>, Error> {
    let (begun, program) = (Instant::now(), shell.program());
    loop {
        let wrong = |source| Error::Local { action: format!("wait for {program}"), source };
        if let Some(status) = child.try_wait().map_err(wrong)? {
            return Ok(status.code());
        }
        let is_long = |file: &&File| file.metadata().is_ok_and(|file| file.len() > limits.bytes);
        let long = written.iter().any(is_long);
        if long || begun.elapsed() > limits.time {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            let host = shell.host().to_owned();
            return Err(match long {
                true => Error::TooLong { host, program, limit: limits.bytes },
                false => Error::TimedOut { host, program, after: limits.time },
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Answer {
    /// The answer of a command that did its work; of one that did not, why. `command` names it.
    pub fn done(self, command: &str) -> Result<Self, Error> {
        self.failure(command).map_or(Ok(self), Err)
    }

    /// Why the command did not do its work, if it did not.
    pub fn failure(&self, command: &str) -> Option<Error> {
        let (host, reason) = (self.shell.host().to_owned(), self.reason());
        match self.code {
            Some(0) => None,
            Some(SSH_FAILED) => {
                let (program, trial) = (self.shell.program(), self.shell.trial());
                Some(Error::Unreachable { host, program, reason, trial })
            }
            code => Some(Error::Command { host, command: command.to_owned(), code, reason }),
        }
    }

    /// The last line of its stderr, where programs say why.
    pub fn reason(&self) -> String {
        let mut lines = self.stderr.lines().rev();
        doctor::one_line(lines.find(|line| !line.trim().is_empty()).unwrap_or_default())
    }

    /// The JSON that it wrote: a shell there may greet before anything else.
    pub fn json(self) -> Result<Vec<u8>, Error> {
        let mut bytes = self.bytes()?;
        let mut line = 0;
        while line < bytes.len() && !matches!(bytes[line], b'{' | b'[') {
            let end = bytes[line..].iter().position(|byte| *byte == b'\n');
            line = end.map_or(bytes.len(), |end| line + end + 1);
        }
        Ok(bytes.split_off(line))
    }

    fn bytes(mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.output.rewind().and_then(|()| self.output.read_to_end(&mut bytes));
        let action = || format!("read the answer of {}", self.shell.host());
        read.map_err(|source| Error::Local { action: action(), source })?;
        Ok(bytes)
    }

    /// What it wrote, as text.
    pub fn text(self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

/// What ssh ends with when it is ssh that failed.
const SSH_FAILED: i32 = 255;
const LONGEST_STDERR: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn here(script: &str, limits: Limits) -> Result<Answer, Error> {
        ask(&Shell::on("localhost").expect("a name"), script, None, limits)
    }

    #[test]
    fn a_command_is_read_to_its_end() {
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
