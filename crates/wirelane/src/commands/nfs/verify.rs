//! `wirelane nfs verify`: whether RDMA carries a mount, and how fast it is beside TCP.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use change::nfs::Proof;
use change::{self, Change, Machine, Pick, Plan, RevertMode, RevertOutcome, RevertReport};
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

/// What was found.
#[derive(Serialize)]
struct VerifyReport {
    rdma: bool,
    #[serde(flatten)]
    proof: Proof,
    /// How much was written and read, and came back the same.
    checked_bytes: Option<usize>,
    by_rdma: Option<Speed>,
    by_tcp: Option<Speed>,
    /// Why there is no result of TCP.
    not_compared: Option<String>,
}

pub(super) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    let path = real(&args.path)?;
    let shown = path.to_string_lossy().into_owned();
    let mut report = VerifyReport::new(prove(&shown)?);
    if report.proof.proto == "rdma" && !args.no_check {
        let stop = Arc::new(AtomicBool::new(false));
        let heard = stop.clone();
        signals::on_first_signal(move || heard.store(true, Ordering::Relaxed))?;
        report.by_rdma = Some(measure(&path, args.size.0, &stop)?);
        report.checked_bytes = Some(args.size.0);
        // A connection that was idle is open again now.
        report.proof = prove(&shown)?;
        if args.no_compare {
            report.not_compared = Some("--no-compare".to_owned());
        } else {
            match compare(&report.proof, &path, args.size.0, &stop) {
                Ok(speed) => report.by_tcp = Some(speed),
                Err(why) => report.not_compared = Some(why),
            }
        }
    }
    report.rdma = report.proof.why_not.is_none();
    if args.json {
        output::json(&report)?;
    } else {
        output::answer(&report.text())?;
    }
    Ok(if report.rdma { Exit::Done } else { Exit::No })
}

/// The folder itself, whatever links lead there. A server that does not answer holds up whoever asks.
fn real(path: &Path) -> Result<PathBuf, Failure> {
    let asked = path.to_owned();
    let shown = path.display();
    // What is known of a folder may be old; how full it is, the server is asked for.
    let look = move || {
        let path = asked.canonicalize()?;
        rustix::fs::statvfs(&path)?;
        Ok(path)
    };
    let found: Option<std::io::Result<PathBuf>> =
        with_timeout(PATIENCE, || format!("looking at {shown}"), look)?;
    match found {
        Some(Ok(path)) => Ok(path),
        Some(Err(error)) => Err(Failure::failed(format!("{shown}: {error}"))),
        None => Err(Failure::failed(format!(
            "{shown}: no answer after {} s: its server is gone, or the way to it",
            PATIENCE.as_secs()
        ))),
    }
}

/// A fresh look at the mount.
fn prove(path: &str) -> Result<Proof, Failure> {
    let tree = Tree::live(None);
    let mounts = Mount::read_all(&tree);
    Proof::of(&mounts, path, tree.answers().cm_ids(), &Node::read(&tree)).map_err(no)
}

fn measure(folder: &Path, size: usize, stop: &Arc<AtomicBool>) -> Result<Speed, Failure> {
    let (asked, halt) = (folder.to_owned(), stop.clone());
    let waiting = || format!("writing and reading {}", folder.display());
    let measured = with_timeout(LONGEST, waiting, move || speed::measure(&asked, size, &halt))?;
    match measured {
        Some(speed) => speed.map_err(Failure::failed),
        None => Err(Failure::failed(format!(
            "{}: writing and reading {size} bytes has no end after {} s; a server that has just started lets nobody write \
             for 90 s",
            folder.display(),
            LONGEST.as_secs()
        ))),
    }
}

/// The same by TCP, mounted for the time of it. The journal knows of the mount, so that `remove` takes away what a run
/// that was cut off has left.
fn compare(
    proof: &Proof,
    path: &Path,
    size: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Speed, String> {
    let said = |error: change::Error| error.to_string();
    let machine = Machine::at(Path::new("/")).map_err(said)?;
    let point = format!("/run/wirelane-nfs-{}", std::process::id());
    // Mounts of one server and version share one connection: by the same version, this one would go by RDMA.
    let version = if proof.version.as_deref() == Some("4.1") { "4.2" } else { "4.1" };
    let mut plan = Plan::default();
    let mount = Change::mount(&proof.source, &point, &format!("proto=tcp,vers={version}"), "tcp");
    plan.step("verify", "to compare with, for a moment", mount, true);
    let command = format!("{COMMAND} verify {}", proof.mountpoint);
    let applied = change::apply(&machine, &plan, &command, now()).map_err(said)?;
    let below = path.strip_prefix(&proof.mountpoint).unwrap_or(Path::new(""));
    let speed = measure(&Path::new(&point).join(below), size, stop);
    let mode = RevertMode::default();
    let back = change::revert(&machine, &Pick::Numbers(applied.made), mode, now());
    let stays = |outcome: RevertReport| match outcome.outcome {
        RevertOutcome::Left(why) | RevertOutcome::Failed(why) => Some(why),
        RevertOutcome::Reverted(_) | RevertOutcome::Nothing(_) => None,
    };
    if let Some(why) = back.map_err(said)?.into_iter().find_map(stays) {
        return Err(format!(
            "the mount {point} could not be taken away again: {why}; `wirelane changes` has its number for `wirelane revert`"
        ));
    }
    speed.map_err(|error| error.to_string())
}

impl VerifyReport {
    fn new(proof: Proof) -> VerifyReport {
        VerifyReport {
            rdma: false,
            proof,
            checked_bytes: None,
            by_rdma: None,
            by_tcp: None,
            not_compared: None,
        }
    }

    fn text(&self) -> String {
        let Proof { mountpoint, source, version, proto, connections, why_not, .. } = &self.proof;
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
        for (way, speed) in [("RDMA", self.by_rdma), ("TCP", self.by_tcp)] {
            if let Some(speed) = speed {
                let mega = |rate: f64| rate / 1e6;
                let _ = writeln!(
                    text,
                    "  {way:4}  write {:8.1} MB/s  read {:8.1} MB/s",
                    mega(speed.write_bytes_per_second),
                    mega(speed.read_bytes_per_second)
                );
            }
        }
        if let Some(why) = &self.not_compared {
            let _ = writeln!(text, "  TCP   not compared: {why}");
        }
        let _ = match why_not {
            None => writeln!(text, "RDMA carries it"),
            Some(why) => writeln!(text, "RDMA does not carry it: {why}"),
        };
        text
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
/// A server in its grace period answers after 90 seconds.
const LONGEST: Duration = Duration::from_secs(300);
