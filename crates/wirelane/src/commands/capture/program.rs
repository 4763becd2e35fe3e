//! A capture program that writes packets to its stdout.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use doctor::capture::{Header, Packet, Parser};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::output::Failure;
use crate::timeout::with_timeout;

/// A running program, and the parser of its output.
pub(super) struct Program {
    name: String,
    child: Child,
    output: ChildStdout,
    /// Its stderr, for the error if it fails.
    stderr: File,
    parser: Parser,
}

impl Drop for Program {
    /// No program is left running.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Program {
    pub(super) fn start(program: &str, arguments: &[String]) -> io::Result<Program> {
        let stderr = tempfile::tempfile()?;
        let mut child = command(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone()?)
            .spawn()?;
        let output =
            child.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let name = program.to_owned();
        Ok(Program { name, child, output, stderr, parser: Parser::default() })
    }

    /// The header of the capture, once it has started.
    pub(super) fn header(&self) -> Option<Header> {
        self.parser.header()
    }

    /// Packets that arrive within this time; `None` when it has ended.
    pub(super) fn next(&mut self, wait: Duration) -> io::Result<Option<Vec<Packet>>> {
        let timeout = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
            other => other?,
        };
        let mut piece = [0; PIECE_BYTES];
        match self.output.read(&mut piece)? {
            0 => Ok(None),
            length => self.parser.feed(&piece[..length]).map(Some),
        }
    }

    /// Ends it with SIGINT, and waits. If it ended by itself, or captured nothing, it has failed.
    pub(super) fn end(mut self, by_itself: bool) -> Result<(), Failure> {
        if !by_itself && let Ok(pid) = i32::try_from(self.child.id()) {
            // It may have just ended by itself.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::INT));
        }
        let deadline = Instant::now() + TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if by_itself || self.header().is_none() {
            let reason = self.last_stderr();
            return Err(Failure::failed(format!("capture: {} ended: {reason}", self.name)));
        }
        Ok(())
    }

    /// The end of its stderr, as one line.
    fn last_stderr(&mut self) -> String {
        let mut text = Vec::new();
        let begin = self.stderr.seek(SeekFrom::End(0)).unwrap_or(0).saturating_sub(STDERR_BYTES);
        let _ = self.stderr.seek(SeekFrom::Start(begin));
        let _ = (&self.stderr).take(STDERR_BYTES).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() { "no error message".to_owned() } else { lines.join("; ") }
    }
}

/// Whether a program is in the path.
pub(super) fn exists(program: &str) -> bool {
    let path = path();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether tcpdump is installed, with a libpcap that supports this RDMA device.
pub(super) fn tcpdump_lists(device: &str) -> bool {
    if !exists("tcpdump") {
        return false;
    }
    let list = || command("tcpdump").arg("-D").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let waiting = || "listing the devices of tcpdump".to_owned();
    let Ok(Some(Ok(listed))) = with_timeout(TIMEOUT, waiting, list) else { return false };
    let listed = String::from_utf8_lossy(&listed.stdout);
    // Each line: `3.mlx5_0 (RDMA sniffer)`.
    let name = |line| str::split_once(line, '.')?.1.split_whitespace().next();
    listed.lines().filter_map(name).any(|name| name == device)
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", path());
    command
}

/// PATH with the sbin directories.
fn path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

const PIECE_BYTES: usize = 64 << 10;
/// For a program to end.
const TIMEOUT: Duration = Duration::from_secs(5);
const STDERR_BYTES: u64 = 2048;
