//! A program that measures: run, shown, kept in a log, and read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use doctor::verdict::nccl::Transferred;
use report::nccl::{self, Run};
use rustix::process::{Pid, Signal, kill_process};

use super::counting::Counting;
use super::launch::Launch;
use crate::arguments::size::seconds;
use crate::commands::bench::facts;
use crate::output;
use crate::output::Failure;

/// How it is run.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub(in crate::commands::bench) struct RunningArgs {
    /// Keep what it prints here (default: a file in the folder for temporary ones)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Do not show what it prints
    #[arg(long, short)]
    quiet: bool,

    /// End it after so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = seconds)]
    timeout: Duration,
}

/// How a program came to its end.
#[derive(Debug)]
pub(in crate::commands::bench) struct Ended {
    /// None: well.
    pub(super) failure: Option<String>,
    pub(super) log: PathBuf,
}

/// Runs it to its end, and reads what it printed; and, if it wrote JSON, the results there.
pub(in crate::commands::bench) fn run(
    launch: &Launch,
    args: &RunningArgs,
    json: Option<&Path>,
) -> Result<(Run, Transferred, Ended), Failure> {
    let (mut log, path) = args.open_log()?;
    let mut counting = Counting::start(&facts::side());
    let name = launch.name();
    let mut child = start(launch, &name).inspect_err(|_| args.forget(&path))?;
    let mut text = String::new();
    let failure = follow(&mut child, args, |line| {
        counting.look();
        if let Some(line) = line {
            keep(line, &mut text, &mut log);
            if !args.quiet && !line.contains(" NCCL INFO ") {
                output::note(line.trim_end());
            }
        }
    });
    let ended = Ended { failure: failure.map(|why| format!("{name} {why}")), log: path };
    let transferred = counting.end();
    let run = nccl::read(&text).map_err(|why| {
        let failure = ended.failure.as_deref().unwrap_or("it ended well");
        Failure::failed(format!(
            "{failure}, and of what it printed {why}; all of it is in {}",
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
    /// Nothing was printed: a log of our own is of no use.
    fn forget(&self, log: &Path) {
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
            "run mpirun: it is not found; install Open MPI here and on all --hosts (`apt install openmpi-bin`)",
        ),
        _ => Failure::failed(format!("run {name}: {error}")),
    })
}

/// Tells every line, and now and then that none came. Why it failed, if it did.
fn follow(
    child: &mut Child,
    args: &RunningArgs,
    mut tell: impl FnMut(Option<&str>),
) -> Option<String> {
    let lines = lines(child);
    let begun = Instant::now();
    while begun.elapsed() < args.timeout {
        match lines.recv_timeout(LOOK) {
            Ok(line) => tell(Some(&line)),
            Err(RecvTimeoutError::Timeout) => tell(None),
            // Both of its outputs are closed.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let ended = wait(child, args.timeout.saturating_sub(begun.elapsed()).min(PATIENCE));
    match ended {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("failed ({status})")),
        None => {
            end(child);
            Some(format!(
                "did not end within {} s and was ended; --timeout gives it longer",
                args.timeout.as_secs()
            ))
        }
    }
}

/// Lines of both outputs as they come.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = sync_channel(QUEUE);
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
        // A line without end is cut into several.
        while (&mut output)
            .take(LONGEST_LINE)
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

/// In the log all of it; to be read, as much as a run can have.
fn keep(line: &str, text: &mut String, log: &mut File) {
    // A full disk is no reason to end a measurement.
    let _ = log.write_all(line.as_bytes());
    if text.len() + line.len() <= nccl::LONGEST {
        text.push_str(line);
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if begun.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As a person would, who lets mpirun end its processes; then for good.
fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if wait(child, PATIENCE).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long a program may take to end once it is told, or has closed its outputs.
const PATIENCE: Duration = Duration::from_secs(10);
const QUEUE: usize = 1024;
const LONGEST_LINE: u64 = 64 << 10;
