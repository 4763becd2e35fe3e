//! `wirelane capture`: packets of an RDMA device, into a file that Wireshark reads.
//!
//! `socket` and `program` are the two ways that packets come, `recording` is where they go.

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
use source::Feed;

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

/// That no packet came is a no.
pub(crate) fn run(_global: &Global, args: &CaptureArgs) -> Result<Exit, Failure> {
    let host = HostArgs { root: args.root.clone(), host_sys: None };
    let tree = host.tree()?;
    let node = Node::read(&tree);
    let no = |refusal: doctor::capture::Refusal| Failure::no(format!("capture: {refusal}"));
    let place = choose(&node, args.device.as_deref(), args.port).map_err(no)?;
    let tools = if tree.is_live() { tools(place) } else { Tools::default() };
    let way = Method::new(place, tools).map_err(no)?;
    let mut report = Report::new(place, &way);
    if args.dry_run {
        report.print(args.json)?;
        return Ok(Exit::Done);
    }
    check_rights(&node, &way)?;
    let to = args.output.clone().unwrap_or_else(|| format!("{}.pcap", place.device.name).into());
    if to == Path::new("-") && args.json {
        return Err(Failure::usage("capture: --json and packets cannot both go to stdout"));
    }
    let begins = report.beginning(&to, args.seconds);
    let (recording, ending, dropped) = record(args, &way, &to, &begins)?;
    report.ends(&to, &recording, ending, dropped);
    let counts = recording.counts();
    recording.close()?;
    if to == Path::new("-") {
        output::note(&report.text())
    } else {
        report.print(args.json)?
    }
    Ok(if counts.packets == 0 { Exit::No } else { Exit::Done })
}

/// Which programs could be of use for this device.
fn tools(place: CapturePort<'_>) -> Tools {
    if place.device.role == Role::Software {
        return Tools::default();
    }
    let sniffer = program::lists(&place.device.name);
    Tools { ibdump: program::is_there("ibdump"), sniffer }
}

/// Said before anything is begun.
fn check_rights(node: &Node, way: &Method) -> Result<(), Failure> {
    let root = rustix::process::geteuid().is_root();
    let raw = node.process.capabilities.is_none_or(|held| held.effective >> NET_RAW & 1 == 1);
    match way {
        Method::Program { program, .. } if program == "ibdump" && !root => {
            Err(Failure::no("capture: ibdump needs root; run it again with sudo"))
        }
        _ if !raw => Err(Failure::no(
            "capture: packets of others may be seen only with CAP_NET_RAW; run it again with sudo, or \
             `setcap cap_net_raw+ep` on this program",
        )),
        _ => Ok(()),
    }
}

/// Writes packets until one of the limits, an interrupt or the source's end; says how many were lost.
fn record(
    args: &CaptureArgs,
    way: &Method,
    to: &Path,
    begins: &str,
) -> Result<(Recording, Ending, Option<u64>), Failure> {
    let stop = stop::Stop::on_signals()?;
    let mut feed = Feed::open(way)?;
    let limits = Limits { packets: args.packets, bytes: args.max_size.0 as u64 };
    let mut recording = Recording::begin(Sink::open(to)?, limits);
    // From here on packets are seen: who waits for this line may send them.
    output::note(begins);
    let total = args.seconds.as_millis() as u64;
    let bar = output::steps(total, "capturing");
    let begun = Instant::now();
    let ending = loop {
        let elapsed = begun.elapsed();
        if let Some(bar) = &bar {
            bar.set_position(elapsed.as_millis() as u64);
        }
        match args.seconds.checked_sub(elapsed) {
            None => break Ending::Time,
            Some(_) if stop.is_wanted() => break Ending::Interrupted,
            Some(left) => {
                let Some(packets) = feed.next(left.min(PAUSE))? else { break Ending::Source };
                if let Some(ending) = recording.take(&feed, way, packets)? {
                    break ending;
                }
            }
        }
    };
    if matches!(ending, Ending::Interrupted | Ending::Time) {
        drain(&mut feed, &mut recording, way)?;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let dropped = feed.end(ending == Ending::Source)?;
    Ok((recording, ending, dropped))
}

/// Takes what came before the end and was not read yet; only for a moment, since more may come all the time.
fn drain(feed: &mut Feed, recording: &mut Recording, way: &Method) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < MOMENT {
        match feed.next(Duration::ZERO)? {
            Some(packets) if !packets.is_empty() => {
                if recording.take(feed, way, packets)?.is_some() {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// What was captured, and how.
#[derive(Serialize)]
struct Report<'r> {
    device: &'r str,
    port: u32,
    #[serde(flatten)]
    way: &'r Method,
    sees: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<CaptureReport>,
}

#[derive(Serialize)]
struct CaptureReport {
    file: PathBuf,
    bytes: u64,
    #[serde(flatten)]
    counts: doctor::capture::Counts,
    /// Packets that came too fast; `null` where the way does not tell.
    dropped: Option<u64>,
    ended_by: Ending,
}

impl<'r> Report<'r> {
    fn new(place: CapturePort<'r>, way: &'r Method) -> Self {
        let (device, port) = (place.device.name.as_str(), place.port.number);
        Report { device, port, way, sees: way.coverage(), capture: None }
    }

    fn ends(&mut self, to: &Path, recording: &Recording, ended_by: Ending, dropped: Option<u64>) {
        let (bytes, counts) = (recording.bytes(), recording.counts());
        let file = to.to_owned();
        self.capture = Some(CaptureReport { file, bytes, counts, dropped, ended_by });
    }

    fn beginning(&self, to: &Path, time: Duration) -> String {
        format!("{}, for {} s into {}", self.how(), time.as_secs_f64(), to.display())
    }

    fn how(&self) -> String {
        let how = match self.way {
            Method::NetDevice { netdev, .. } => format!("on its net device {netdev}"),
            Method::Program { program, arguments } => {
                format!("by `{program} {}`", arguments.join(" "))
            }
        };
        format!("{} port {} {how}: {}", self.device, self.port, self.sees)
    }

    fn print(&self, json: bool) -> Result<(), Failure> {
        if json { output::json(self) } else { output::answer(&self.text()) }
    }

    fn text(&self) -> String {
        let Some(capture) = &self.capture else { return format!("{}\n", self.how()) };
        let lost = match capture.dropped {
            Some(0) | None => String::new(),
            Some(dropped) => format!(", {dropped} lost: they came too fast"),
        };
        let file = capture.file.display();
        format!(
            "{}{lost}; {} bytes in {file} ({})\n",
            capture.counts.text(),
            capture.bytes,
            capture.ended_by.told()
        )
    }
}

/// CAP_NET_RAW.
const NET_RAW: u32 = 13;
/// How long a signal may wait to be noticed.
const PAUSE: Duration = Duration::from_millis(100);
/// How long what waits in the kernel at the end is still read.
const MOMENT: Duration = Duration::from_secs(1);
