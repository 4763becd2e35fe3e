//! Runs a program that measures: prints and logs its output, and parses it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use doctor::evaluation::nccl::Transferred;
use report::nccl::{self, Run};
use rustix::process::{Pid, Signal, kill_process};

use super::launch::Launch;
use super::traffic::PortTraffic;
use crate::arguments::size::seconds;
use crate::commands::bench::facts;
use crate::output;
use crate::output::Failure;

/// Log, output and timeout of the program.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(in crate::commands::bench) struct RunningArgs {
    /// Write its output to this file (default: a temporary file)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Do not print its output
    #[arg(long, short)]
    quiet: bool,

    /// Kill it after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = seconds)]
    timeout: Duration,
}

/// The end of a program.
#[derive(Debug)]
pub(in crate::commands::bench) struct ProgramEnd {
    /// `None`: success.
    pub(super) failure: Option<String>,
    pub(super) log: PathBuf,
}

/// Runs it to its end, and parses its output; if it wrote JSON, takes the results from there.
pub(in crate::commands::bench) fn run(
    launch: &Launch,
    args: &RunningArgs,
    json: Option<&Path>,
) -> Result<(Run, Transferred, ProgramEnd), Failure> {
    let (mut log, path) = args.open_log()?;
    let mut traffic = PortTraffic::start(&facts::host_facts(), launch.ports());
    let name = launch.name();
    let mut child = start(launch, &name).inspect_err(|_| args.remove_log(&path))?;
    let mut text = String::new();
    let failure = follow(&mut child, args, |line| {
        traffic.sample();
        if let Some(line) = line {
            append(line, &mut text, &mut log);
            if !args.quiet && !line.contains(" NCCL INFO ") {
                output::note(line.trim_end());
            }
        }
    });
    let ended = ProgramEnd { failure: failure.map(|why| format!("{name} {why}")), log: path };
    let transferred = traffic.end();
    let run = nccl::read(&text).map_err(|why| {
        let failure = ended.failure.as_deref().unwrap_or("it succeeded");
        Failure::failed(format!(
            "{failure}, but its output cannot be read: {why}; it is in {}",
            ended.log.display()
        ))
    })?;
    let written = json.and_then(|file| std::fs::read_to_string(file).ok());
    let written = written.and_then(|text| nccl::read(&text).ok());
    let run = match written {
        Some(written) => run.with_rows_of(written),
        None => run,
    };
    Ok((run, transferred, ended))
}

impl RunningArgs {
    /// Removes a temporary log of a program that did not start.
    fn remove_log(&self, log: &Path) {
        if self.log.is_none() {
            let _ = std::fs::remove_file(log);
        }
    }

    fn open_log(&self) -> Result<(File, PathBuf), Failure> {
        let wrong = |error: io::Error| Failure::failed(format!("write the log: {error}"));
        if let Some(path) = &self.log {
            let file = File::create(path)
                .map_err(|error| Failure::failed(format!("--log {}: {error}", path.display())))?;
            return Ok((file, path.clone()));
        }
        let file = tempfile::Builder::new().prefix("wirelane-nccl-").suffix(".log").tempfile();
        file.map_err(wrong)?.keep().map_err(|error| wrong(error.error))
    }
}

fn start(launch: &Launch, name: &str) -> Result<Child, Failure> {
    let mut command = launch.command();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| match (error.kind(), name) {
        (io::ErrorKind::NotFound, "mpirun") => Failure::failed(
            "run mpirun: not found; install Open MPI on this host and on all --hosts (`apt install openmpi-bin`)",
        ),
        _ => Failure::failed(format!("run {name}: {error}")),
    })
}

/// Calls `on_line` for every line, and with `None` when none arrived for a while. Returns the reason of a failure.
fn follow(
    child: &mut Child,
    args: &RunningArgs,
    mut on_line: impl FnMut(Option<&str>),
) -> Option<String> {
    let lines = lines(child);
    let started = Instant::now();
    while started.elapsed() < args.timeout {
        match lines.recv_timeout(SAMPLE_INTERVAL) {
            Ok(line) => on_line(Some(&line)),
            Err(RecvTimeoutError::Timeout) => on_line(None),
            // stdout and stderr are closed.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let ended = wait(child, args.timeout.saturating_sub(started.elapsed()).min(EXIT_TIMEOUT));
    match ended {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("failed ({status})")),
        None => {
            end(child);
            Some(format!(
                "did not end within {} s and was killed; raise --timeout",
                args.timeout.as_secs()
            ))
        }
    }
}

/// Lines of stdout and stderr as they arrive.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
    if let Some(stdout) = child.stdout.take() {
        forward(stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        forward(stderr, sender);
    }
    receiver
}

fn forward(output: impl Read + Send + 'static, to: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // A line longer than the limit is split.
        while (&mut output)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Appends a line to the log, and to the text up to the limit of `nccl::read`.
fn append(line: &str, text: &mut String, log: &mut File) {
    // A full disk must not abort a measurement.
    let _ = log.write_all(line.as_bytes());
    if text.len() + line.len() <= nccl::MAX_LOG_BYTES {
        text.push_str(line);
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if started.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends SIGTERM, so that mpirun can end its processes; then SIGKILL.
fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if wait(child, EXIT_TIMEOUT).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// How often the ports are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Time for a program to end after SIGTERM, or after it closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_QUEUED_LINES: usize = 1024;
const MAX_LINE_BYTES: u64 = 64 << 10;
