//! One command on a host, and its answer.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::error::Error;
use super::shell::Shell;

/// Limits of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time until the command ends.
    pub time: Duration,
    /// Bytes on stdout, and on stderr.
    pub bytes: u64,
}

/// For short commands.
impl Default for Limits {
    fn default() -> Self {
        Limits { time: Duration::from_secs(60), bytes: 1 << 20 }
    }
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub struct Answer {
    shell: Shell,
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    /// Its stdout, in an unnamed temporary file, which is removed however this program ends.
    output: File,
    /// Its stderr, or that of ssh or srun.
    pub stderr: String,
}

/// Runs a script on a host. Its output goes to files, so that no full pipe can block it.
pub fn run_script(
    shell: &Shell,
    script: &str,
    input: Option<File>,
    limits: Limits,
) -> Result<Answer, Error> {
    let failed = |source| Error::start(shell, source);
    let output = tempfile::tempfile().map_err(failed)?;
    let mut stderr = tempfile::tempfile().map_err(failed)?;
    let mut command = shell.command(&[], script);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.try_clone().map_err(failed)?);
    command.stderr(stderr.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    let code = wait(&mut child, shell, &[&output, &stderr], limits)?;
    let mut text = Vec::new();
    stderr.rewind().map_err(failed)?;
    stderr.take(MAX_STDERR_BYTES).read_to_end(&mut text).map_err(failed)?;
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
        let failed = |source| Error::Local { action: format!("wait for {program}"), source };
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status.code());
        }
        let is_long = |file: &&File| file.metadata().is_ok_and(|file| file.len() > limits.bytes);
        let long = written.iter().any(is_long);
        if long || begun.elapsed() > limits.time {
            // The process may have ended meanwhile.
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
    /// The answer of a command that succeeded, or else an error. `command` names the command.
    pub fn success(self, command: &str) -> Result<Self, Error> {
        self.failure(command).map_or(Ok(self), Err)
    }

    /// The error of a command that failed.
    pub fn failure(&self, command: &str) -> Option<Error> {
        let (host, reason) = (self.shell.host().to_owned(), self.reason());
        match self.code {
            Some(0) => None,
            Some(SSH_FAILED) => {
                let (program, test_command) = (self.shell.program(), self.shell.test_command());
                Some(Error::Unreachable { host, program, reason, test_command })
            }
            code => Some(Error::Command { host, command: command.to_owned(), code, reason }),
        }
    }

    /// The last line of its stderr, which usually has the reason.
    pub fn reason(&self) -> String {
        let mut lines = self.stderr.lines().rev();
        doctor::one_line(lines.find(|line| !line.trim().is_empty()).unwrap_or_default())
    }

    /// The JSON on its stdout, without lines that a login shell may print before.
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

    /// Its stdout as text.
    pub fn text(self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

/// The exit code of ssh when ssh itself failed.
const SSH_FAILED: i32 = 255;
const MAX_STDERR_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(script: &str, limits: Limits) -> Result<Answer, Error> {
        run_script(&Shell::on("localhost").expect("a name"), script, None, limits)
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let answer =
            run_here("echo out; echo why >&2; exit 4", Limits::default()).expect("an answer");
        let failure = answer.failure("x").expect("a failure").to_string();
        assert_eq!(failure, "`x` on localhost ended with code 4: why");
        assert_eq!((answer.code, answer.text().expect("text").as_str()), (Some(4), "out\n"));
    }

    #[test]
    fn json_is_found_after_a_login_message() {
        let json = |script: &str| {
            let answer = run_here(script, Limits::default()).expect("an answer");
            String::from_utf8(answer.json().expect("bytes")).expect("text")
        };
        assert_eq!(json("echo hello {you}; echo; echo '{\"a\":1}'"), "{\"a\":1}\n");
        assert_eq!(json("echo '[]'"), "[]\n");
        assert_eq!(json("echo hello; printf there"), "");
    }

    #[test]
    fn commands_are_killed_at_their_limits() {
        let short = Limits { time: Duration::from_millis(50), ..Limits::default() };
        let failure = run_here("exec sleep 60", short).expect_err("no answer").to_string();
        assert!(failure.contains("does not answer"), "{failure}");
        let small = Limits { bytes: 4096, ..Limits::default() };
        let failure = run_here("exec cat /dev/zero", small).expect_err("too much").to_string();
        assert!(failure.contains("sends more"), "{failure}");
    }
}
