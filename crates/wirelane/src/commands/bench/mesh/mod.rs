//! `wirelane bench mesh`: every pair of several hosts, in rounds in which each host takes part in one measurement at
//! most.
//!
//! Every host has a running `bench serve`, or gets one over ssh for the duration of the run. The server of one host
//! measures to that of the other, and authenticates with the client's key.

mod map;

use std::time::Duration;

use clap::Args;
use doctor::evaluation::{self, PairResult};
use measure::{Client, Transports};
use report::{Limit, Operation, Plan, Point, RunKind, Test, Transport, Verdict};

use super::args::Op;
use super::run::{OutputArgs, PrintedPoint, start_document};
use super::target::{CallerArgs, Host, Target};
use super::transports;
use crate::arguments::size::{Size, seconds};
use crate::arguments::transport::TransportArg;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::{logging, output};

#[derive(Debug, Args)]
pub(crate) struct MeshArgs {
    /// Hosts of servers, `wirelane bench serve`; default port 50052. If one does not answer and no port is given,
    /// servers are started on all hosts over ssh
    #[arg(long, value_name = "HOST[:PORT],…", value_delimiter = ',', required = true)]
    hosts: Vec<Host>,

    #[command(flatten)]
    caller: CallerArgs,

    /// Transport: the best of each pair, or only this one
    #[arg(long, value_name = "KIND", default_value = "auto")]
    transport: TransportArg,

    /// Operation to measure
    #[arg(long, value_name = "OPERATION", default_value = "write")]
    op: Op,

    /// Bytes of one operation when bandwidth is measured
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    size: Size,

    /// Seconds for each measurement; a pair has three: bandwidth in both directions, and latency
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    time: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(global: &Global, args: &MeshArgs) -> Result<Exit, Failure> {
    args.output.keep.check()?;
    let names: Vec<String> = args.hosts.iter().map(|host| host.peer.to_string()).collect();
    check(&names)?;
    let plan = args.plan(Test::Bandwidth, args.size.0 as u64);
    plan.check(u64::MAX)?;
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let transports = transports(global, &settings)?;
    let targets = Target::find_all(&args.hosts, &args.caller, global, &settings)?;
    let mut document = start_document(RunKind::Mesh);
    let rounds = evaluation::rounds(names.len());
    let bar = output::steps(rounds.len() as u64, "measuring");
    let mut measured = Vec::new();
    for round in &rounds {
        let pairs = std::thread::scope(|scope| {
            let measure = |(one, other): &(usize, usize)| {
                let work = (*one, *other);
                let (names, targets, transports) = (&names, &targets, &transports);
                scope.spawn(move || pair(args, work, names, targets, transports))
            };
            let threads: Vec<_> = round.iter().map(measure).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        });
        for (points, measurements) in pairs {
            document.points.extend(points);
            measured.extend(measurements);
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let matrix = evaluation::matrix(&names, &measured);
    document.verdict = Some(Verdict { summary: map::summary(&matrix), ..Verdict::default() });
    for (at, point) in document.points.iter().enumerate().filter(|_| args.output.csv) {
        args.output.show(PrintedPoint { point, is_first: at == 0 })?;
    }
    if !args.output.json && !args.output.csv {
        output::answer(&map::render(&matrix))?;
    }
    let (failed, pairs) = (matrix.failed.len(), measured.len());
    document.matrix = Some(matrix);
    args.output.finish(&document)?;
    match failed {
        0 => Ok(Exit::Done),
        failed => {
            let text = format!("{failed} of {pairs} directions could not be measured, see above");
            Err(Failure::failed(text))
        }
    }
}

/// Checks the number of hosts, and that each is named once.
fn check(names: &[String]) -> Result<(), Failure> {
    if names.len() < 2 || names.len() > MAX_HOSTS {
        return Err(Failure::usage(format!("--hosts: a mesh has 2 to {MAX_HOSTS} hosts")));
    }
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    match twice {
        Some((_, name)) => Err(Failure::usage(format!("--hosts: {name} is named twice"))),
        None => Ok(()),
    }
}

impl MeshArgs {
    fn plan(&self, test: Test, size: u64) -> Plan {
        let operation = match self.op {
            Op::Write => Operation::Write,
            Op::Read => Operation::Read,
            Op::Send => Operation::Send,
            Op::Atomic => Operation::Atomic,
        };
        let transport = match self.transport {
            TransportArg::Verbs => Transport::Verbs,
            TransportArg::Ofi => Transport::Ofi,
            TransportArg::Shm => Transport::Shm,
            TransportArg::Tcp | TransportArg::Auto => Transport::Tcp,
        };
        Plan {
            limit: Limit::Milliseconds(self.time.as_millis() as u64),
            ..Plan::new(test, operation, transport, size)
        }
    }
}

/// Bandwidth in both directions, and latency. A failure is returned, and does not affect other pairs.
fn pair(
    args: &MeshArgs,
    (one, other): (usize, usize),
    names: &[String],
    targets: &[Target],
    transports: &Transports,
) -> (Vec<Point>, Vec<PairResult>) {
    let (mut points, mut measured) = (Vec::new(), Vec::new());
    let mut latency = None;
    for (from, to) in [(one, other), (other, one)] {
        let measurements = (|| {
            let mut client =
                targets[from].connect(transports).map_err(|failure| failure.to_string())?;
            let to_address = targets[to].peer_address();
            let plan = args.plan(Test::Bandwidth, args.size.0 as u64);
            let gbps =
                relay(&mut client, args, &plan, &to_address, (from, to), names, &mut points)?.gbps;
            if latency.is_none() {
                let plan = args.plan(Test::Latency, LATENCY_BYTES);
                let point =
                    relay(&mut client, args, &plan, &to_address, (from, to), names, &mut points)?;
                latency = point.latency.map(|latency| latency.p50_ns as f64 / 1e3);
            }
            Ok((gbps.unwrap_or(0.0), latency))
        })();
        measured.push(PairResult { from, to, measurements });
    }
    (points, measured)
}

fn relay(
    client: &mut Client,
    args: &MeshArgs,
    plan: &Plan,
    to_address: &str,
    (from, to): (usize, usize),
    names: &[String],
    points: &mut Vec<Point>,
) -> Result<Point, String> {
    let choose = args.transport == TransportArg::Auto;
    let outcome = client.relay(to_address, plan, choose).map_err(|error| error.to_string())?;
    let why = if choose { "the best of both hosts" } else { "requested by --transport" };
    let mut point = Point::new(&outcome, &names[from], &names[to], why);
    point.retransmissions = evaluation::retransmissions(&point);
    points.push(point.clone());
    Ok(point)
}

const MAX_HOSTS: usize = 256;
/// The size for latency.
const LATENCY_BYTES: u64 = 64;
