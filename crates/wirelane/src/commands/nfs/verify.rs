//! `wirelane nfs verify`: whether a mount uses RDMA, and its speed compared with TCP.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use change::nfs::MountCheck;
use change::{self, Change, Machine, Plan, RevertMode, RevertOutcome, RevertReport, Selection};
use clap::Args;
use node::{Mount, Node, Tree};
use serde::Serialize;

use super::COMMAND;
use super::plan_apply::no;
use super::speed::{self, Speed};
use crate::arguments::size::Size;
use crate::commands::plans::now;
use crate::output::{Exit, Failure};
use crate::timeout::with_timeout;
use crate::{output, signals};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The mount point, or a writable directory below it
    #[arg(value_name = "MOUNTPOINT")]
    path: PathBuf,

    /// Bytes to write and read
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: Size,

    /// Do not write and read
    #[arg(long)]
    no_check: bool,

    /// Do not mount over TCP for comparison
    #[arg(long)]
    no_compare: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result.
#[derive(Serialize)]
struct VerifyReport {
    rdma: bool,
    #[serde(flatten)]
    check: MountCheck,
    /// Bytes that were written, read back and equal.
    checked_bytes: Option<usize>,
    by_rdma: Option<Speed>,
    by_tcp: Option<Speed>,
    /// Why there is no result for TCP.
    not_compared: Option<String>,
}

pub(super) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let path = resolve(&args.path)?;
    let text = path.to_string_lossy().into_owned();
    let mut report = VerifyReport::new(check_mount(&text)?);
    if report.check.proto == "rdma" && !args.no_check {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        signals::on_first_signal(move || flag.store(true, Ordering::Relaxed))?;
        report.by_rdma = Some(measure(&path, args.size.0, &stop)?);
        report.checked_bytes = Some(args.size.0);
        // An idle connection has been reopened now.
        report.check = check_mount(&text)?;
        if args.no_compare {
            report.not_compared = Some("--no-compare".to_owned());
        } else {
            match compare(&report.check, &path, args.size.0, &stop) {
                Ok(speed) => report.by_tcp = Some(speed),
                Err(why) => report.not_compared = Some(why),
            }
        }
    }
    report.rdma = report.check.why_not.is_none();
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
    }
    Ok(if report.rdma { Exit::Done } else { Exit::No })
}

/// The path without symbolic links. Has a timeout, since a server that does not answer blocks file operations.
fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    let given = path.to_owned();
    let name = path.display();
    // Attributes may be cached; statvfs always queries the server.
    let work = move || {
        let path = given.canonicalize()?;
        rustix::fs::statvfs(&path)?;
        Ok(path)
    };
    let found: Option<std::io::Result<PathBuf>> =
        with_timeout(SERVER_TIMEOUT, || format!("waiting for {name}"), work)?;
    match found {
        Some(Ok(path)) => Ok(path),
        Some(Err(error)) => Err(Failure::failed(format!("{name}: {error}"))),
        None => Err(Failure::failed(format!(
            "{name}: no answer after {} s: the server or the network is down",
            SERVER_TIMEOUT.as_secs()
        ))),
    }
}

/// Reads the state of the mount.
fn check_mount(path: &str) -> Result<MountCheck, Failure> {
    let tree = Tree::live(None);
    let mounts = Mount::read_all(&tree);
    MountCheck::of(&mounts, path, tree.query_results().cm_ids(), &Node::read(&tree)).map_err(no)
}

fn measure(folder: &Path, size: usize, stop: &Arc<AtomicBool>) -> Result<Speed, Failure> {
    let (directory, stop) = (folder.to_owned(), stop.clone());
    let waiting = || format!("writing and reading {}", folder.display());
    let measured =
        with_timeout(MEASURE_TIMEOUT, waiting, move || speed::measure(&directory, size, &stop))?;
    match measured {
        Some(speed) => speed.map_err(Failure::failed),
        None => Err(Failure::failed(format!(
            "{}: writing and reading {size} bytes timed out after {} s; a server that has just started refuses writes \
             for 90 s",
            folder.display(),
            MEASURE_TIMEOUT.as_secs()
        ))),
    }
}

/// Measures a temporary mount over TCP. The mount is in the journal, so that `remove` can clean up after an interrupted run.
fn compare(
    check: &MountCheck,
    path: &Path,
    size: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Speed, String> {
    let text = |error: change::Error| error.to_string();
    let machine = Machine::at(Path::new("/")).map_err(text)?;
    let point = format!("/run/wirelane-nfs-{}", std::process::id());
    // Mounts of one server with the same version share a connection: with the same version, this mount would use RDMA.
    let version = if check.version.as_deref() == Some("4.1") { "4.2" } else { "4.1" };
    let mut plan = Plan::default();
    let mount = Change::mount(&check.source, &point, &format!("proto=tcp,vers={version}"), "tcp");
    plan.step("verify", "temporary, for comparison", mount, true);
    let command = format!("{COMMAND} verify {}", check.mountpoint);
    let applied = change::apply(&machine, &plan, &command, now()).map_err(text)?;
    let below = path.strip_prefix(&check.mountpoint).unwrap_or(Path::new(""));
    let speed = measure(&Path::new(&point).join(below), size, stop);
    let mode = RevertMode::default();
    let reverted = change::revert(&machine, &Selection::Numbers(applied.changes), mode, now());
    let failure = |outcome: RevertReport| match outcome.outcome {
        RevertOutcome::Left(why) | RevertOutcome::Failed(why) => Some(why),
        RevertOutcome::Reverted(_) | RevertOutcome::Nothing(_) => None,
    };
    if let Some(why) = reverted.map_err(text)?.into_iter().find_map(failure) {
        return Err(format!(
            "cannot unmount {point}: {why}; see `wirelane changes` for its number, and run `wirelane revert`"
        ));
    }
    speed.map_err(|error| error.to_string())
}

impl VerifyReport {
    fn new(check: MountCheck) -> VerifyReport {
        VerifyReport {
            rdma: false,
            check,
            checked_bytes: None,
            by_rdma: None,
            by_tcp: None,
            not_compared: None,
        }
    }

    fn text(&self) -> String {
        let MountCheck { mountpoint, source, version, proto, connections, why_not, .. } =
            &self.check;
        let mut text = String::new();
        let vers = version.as_deref().unwrap_or("?");
        let _ = writeln!(text, "{mountpoint}  {source}, NFS {vers}, proto={proto}");
        for id in connections.iter().flatten() {
            let end = |end: &Option<std::net::SocketAddr>| {
                end.map_or("?".to_owned(), |address| address.to_string())
            };
            let _ = writeln!(
                text,
                "  connection on {}: {} → {}, {}",
                id.device,
                end(&id.local),
                end(&id.peer),
                id.state
            );
        }
        if let Some(bytes) = self.checked_bytes {
            let _ = writeln!(text, "  {} MiB written, read back and equal", bytes >> 20);
        }
        for (transport, speed) in [("RDMA", self.by_rdma), ("TCP", self.by_tcp)] {
            if let Some(speed) = speed {
                let mega = |rate: f64| rate / 1e6;
                let _ = writeln!(
                    text,
                    "  {transport:4}  write {:8.1} MB/s  read {:8.1} MB/s",
                    mega(speed.write_bytes_per_second),
                    mega(speed.read_bytes_per_second)
                );
            }
        }
        if let Some(why) = &self.not_compared {
            let _ = writeln!(text, "  TCP   not compared: {why}");
        }
        let _ = match why_not {
            None => writeln!(text, "uses RDMA"),
            Some(why) => writeln!(text, "does not use RDMA: {why}"),
        };
        text
    }
}

const SERVER_TIMEOUT: Duration = Duration::from_secs(20);
/// A server in its grace period answers after 90 seconds.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(300);
