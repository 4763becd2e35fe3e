//! `wirelane capture`: writes packets of an RDMA device to a file for Wireshark.
//!
//! `socket` and `program` are the two sources of packets, `recording` writes them.

mod program;
mod recording;
mod socket;
mod source;
mod stop;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use doctor::capture::{CapturePort, Method, Tools, choose};
use node::{Node, Role};
use serde::Serialize;

use crate::arguments::host::HostArgs;
use crate::arguments::size::{self, Size};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use recording::{Ending, Limits, Recording, Sink};
use source::PacketSource;

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// RDMA device, see `wirelane devices` (default: the first with an active port)
    device: Option<String>,

    /// Output file, which must not exist; `-` is stdout (default: DEVICE.pcap)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Stop after this time
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = size::seconds)]
    seconds: Duration,

    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    packets: Option<u64>,

    /// Stop before the file is larger than this
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    max_size: Size,

    /// Port of the device (default: the first active one)
    #[arg(long, value_name = "PORT")]
    port: Option<u32>,

    /// Print how packets would be captured and which ones, and capture nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON at the end
    #[arg(long)]
    json: bool,

    /// With --dry-run: read this directory tree or snapshot file instead of the running machine
    #[arg(long, value_name = "PATH", default_value = "/", requires = "dry_run")]
    root: PathBuf,
}

/// Exit code 1 if no packet was captured.
pub(crate) fn run(_global: &Global, args: &CaptureArgs) -> Result<Exit, Failure> {
    let host = HostArgs { root: args.root.clone(), host_sys: None };
    let tree = host.tree()?;
    let node = Node::read(&tree);
    let no = |refusal: doctor::capture::Refusal| Failure::no(format!("capture: {refusal}"));
    let place = choose(&node, args.device.as_deref(), args.port).map_err(no)?;
    let tools = if tree.is_live() { tools(place) } else { Tools::default() };
    let method = Method::new(place, tools).map_err(no)?;
    let mut report = Report::new(place, &method);
    if args.dry_run {
        report.print(args.json)?;
        return Ok(Exit::Done);
    }
    check_permissions(&node, &method)?;
    let to = args.output.clone().unwrap_or_else(|| format!("{}.pcap", place.device.name).into());
    if to == Path::new("-") && args.json {
        return Err(Failure::usage("capture: --json and packets cannot both be written to stdout"));
    }
    let start_line = report.start_line(&to, args.seconds);
    let (recording, ending, dropped) = record(args, &method, &to, &start_line)?;
    report.set_capture(&to, &recording, ending, dropped);
    let counts = recording.counts();
    recording.close()?;
    if to == Path::new("-") {
        output::note(&report.text())
    } else {
        report.print(args.json)?
    }
    Ok(if counts.packets == 0 { Exit::No } else { Exit::Done })
}

/// The capture programs that support this device.
fn tools(place: CapturePort<'_>) -> Tools {
    if place.device.role == Role::Software {
        return Tools::default();
    }
    let sniffer = program::tcpdump_lists(&place.device.name);
    Tools { ibdump: program::exists("ibdump"), sniffer }
}

/// Fails before the capture starts, if permissions are missing.
fn check_permissions(node: &Node, method: &Method) -> Result<(), Failure> {
    let root = rustix::process::geteuid().is_root();
    let has_net_raw =
        node.process.capabilities.is_none_or(|sets| sets.effective >> CAP_NET_RAW & 1 == 1);
    match method {
        Method::Program { program, .. } if program == "ibdump" && !root => {
            Err(Failure::no("capture: ibdump requires root; run this with sudo"))
        }
        _ if !has_net_raw => Err(Failure::no(
            "capture: requires CAP_NET_RAW; run this with sudo, or set `setcap cap_net_raw+ep` on this program",
        )),
        _ => Ok(()),
    }
}

/// Writes packets until a limit, an interrupt or the end of the source; returns the number of lost packets.
fn record(
    args: &CaptureArgs,
    method: &Method,
    to: &Path,
    start_line: &str,
) -> Result<(Recording, Ending, Option<u64>), Failure> {
    let stop = stop::Stop::on_signals()?;
    let mut source = PacketSource::open(method)?;
    let limits = Limits { packets: args.packets, bytes: args.max_size.0 as u64 };
    let mut recording = Recording::begin(Sink::open(to)?, limits);
    // Packets are captured from here on: a caller that waits for this line may send them.
    output::note(start_line);
    let total = args.seconds.as_millis() as u64;
    let bar = output::steps(total, "capturing");
    let started = Instant::now();
    let ending = loop {
        let elapsed = started.elapsed();
        if let Some(bar) = &bar {
            bar.set_position(elapsed.as_millis() as u64);
        }
        match args.seconds.checked_sub(elapsed) {
            None => break Ending::Time,
            Some(_) if stop.is_requested() => break Ending::Interrupted,
            Some(left) => {
                let Some(packets) = source.next(left.min(SIGNAL_CHECK_INTERVAL))? else {
                    break Ending::Source;
                };
                if let Some(ending) = recording.add(&source, method, packets)? {
                    break ending;
                }
            }
        }
    };
    if matches!(ending, Ending::Interrupted | Ending::Time) {
        drain(&mut source, &mut recording, method)?;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let dropped = source.end(ending == Ending::Source)?;
    Ok((recording, ending, dropped))
}

/// Reads packets that arrived before the end; for a limited time, since new ones keep arriving.
fn drain(
    source: &mut PacketSource,
    recording: &mut Recording,
    method: &Method,
) -> Result<(), Failure> {
    let started = Instant::now();
    while started.elapsed() < DRAIN_TIMEOUT {
        match source.next(Duration::ZERO)? {
            Some(packets) if !packets.is_empty() => {
                if recording.add(source, method, packets)?.is_some() {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// The device, the method and the result.
#[derive(Serialize)]
struct Report<'r> {
    device: &'r str,
    port: u32,
    #[serde(flatten)]
    method: &'r Method,
    sees: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<CaptureReport>,
}

#[derive(Serialize)]
struct CaptureReport {
    file: PathBuf,
    bytes: u64,
    #[serde(flatten)]
    counts: doctor::capture::PacketCounts,
    /// Packets that were lost; `null` if unknown.
    dropped: Option<u64>,
    ended_by: Ending,
}

impl<'r> Report<'r> {
    fn new(place: CapturePort<'r>, method: &'r Method) -> Self {
        let (device, port) = (place.device.name.as_str(), place.port.number);
        Report { device, port, method, sees: method.coverage(), capture: None }
    }

    fn set_capture(
        &mut self,
        to: &Path,
        recording: &Recording,
        ended_by: Ending,
        dropped: Option<u64>,
    ) {
        let (bytes, counts) = (recording.bytes(), recording.counts());
        let file = to.to_owned();
        self.capture = Some(CaptureReport { file, bytes, counts, dropped, ended_by });
    }

    fn start_line(&self, to: &Path, time: Duration) -> String {
        format!("{}, for {} s into {}", self.how(), time.as_secs_f64(), to.display())
    }

    fn how(&self) -> String {
        let how = match self.method {
            Method::NetDevice { netdev, .. } => format!("on its net device {netdev}"),
            Method::Program { program, arguments } => {
                format!("with `{program} {}`", arguments.join(" "))
            }
        };
        format!("{} port {} {how}: {}", self.device, self.port, self.sees)
    }

    fn print(&self, json: bool) -> Result<(), Failure> {
        if json { output::json(self) } else { output::text(&self.text()) }
    }

    fn text(&self) -> String {
        let Some(capture) = &self.capture else { return format!("{}\n", self.how()) };
        let lost = match capture.dropped {
            Some(0) | None => String::new(),
            Some(dropped) => format!(", {dropped} dropped"),
        };
        let file = capture.file.display();
        format!(
            "{}{lost}; {} bytes in {file} ({})\n",
            capture.counts.text(),
            capture.bytes,
            capture.ended_by.describe()
        )
    }
}

/// The number of the capability.
const CAP_NET_RAW: u32 = 13;
/// How soon a signal is noticed.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long packets in the kernel's buffer are read at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
