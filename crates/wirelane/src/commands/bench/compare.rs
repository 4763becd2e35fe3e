//! `wirelane bench compare`: TCP, and RDMA over each pair of ports, in one table.

use std::time::Duration;

use clap::Args;
use doctor::evaluation::{self, HostFacts};
use measure::PortPair;
use report::{Document, Limit, Operation, Plan, Point, RunKind, Test, Transport, Verdict};

use super::expect::Expect;
use super::run::{OutputArgs, PrintedPoint, Run, start_document};
use super::target::TargetArgs;
use super::{facts, transports};
use crate::arguments::size::{Size, seconds};
use crate::output::{Exit, Failure, wrap};
use crate::settings::Global;
use crate::settings::Settings;
use crate::{logging, output};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Bytes of one operation when bandwidth is measured
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    size: Size,

    /// Seconds for each measurement; there are two for each path
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    time: Duration,

    /// Exit with 1 unless the best path reaches this: 90%, 50Gb/s
    #[arg(long, value_name = "RESULT")]
    expect: Option<Expect>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(global: &Global, args: &CompareArgs) -> Result<Exit, Failure> {
    if let Some(expect) = &args.expect {
        expect.check(Test::Bandwidth)?;
    }
    args.output.keep.check()?;
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let transports = transports(global, &settings)?;
    let target = args.target.find(global, &settings)?;
    let is_local = target.is_local();
    let mut document = start_document(RunKind::Compare);
    document.peer = Some(target.name.clone());
    let mut run = Run::new(target, transports, Some((Transport::Tcp, "for comparison with RDMA")))?;
    let peer_facts = HostFacts::parse(run.client.about());
    let (pairs, why_none) = match pairs(&mut run, is_local) {
        Ok(pairs) => (pairs, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    let mut plans = args.plans(Transport::Tcp, None);
    plans.extend(pairs.iter().flat_map(|pair| args.plans(Transport::Verbs, Some(pair))));
    measure(&mut run, &plans, &mut document)?;
    let mut verdict = evaluate(&document.points, peer_facts.as_ref());
    verdict.notes.extend(why_none.map(|why| format!("TCP only: {why}")));
    if let Some(expect) = &args.expect {
        verdict.expectation = Some(expect.evaluate(&bandwidths(&document.points), &verdict)?);
    }
    let is_met = verdict.expectation.as_ref().is_none_or(|expectation| expectation.met);
    document.verdict = Some(verdict);
    if !args.output.json && !args.output.csv {
        output::answer(&table(&document.points))?;
    }
    for (at, point) in document.points.iter().enumerate().filter(|_| args.output.csv) {
        args.output.show(PrintedPoint { point, is_first: at == 0 })?;
    }
    args.output.finish(&document)?;
    Ok(if is_met { Exit::Done } else { Exit::No })
}

impl CompareArgs {
    /// Bandwidth, then latency, over one path.
    fn plans(&self, transport: Transport, pair: Option<&PortPair>) -> Vec<Plan> {
        let plan = |test, size| Plan {
            limit: Limit::Milliseconds(self.time.as_millis() as u64),
            device: pair.map(|pair| pair.local.device.clone()),
            peer_device: pair.map(|pair| pair.peer.device.clone()),
            ..Plan::new(test, Operation::Write, transport, size)
        };
        vec![plan(Test::Bandwidth, self.size.0 as u64), plan(Test::Latency, LATENCY_BYTES)]
    }
}

/// Ports that reach each other. If both ends are on one host, a port is paired with a port of another device, so that
/// the data crosses a wire, and with itself only if there is no other.
fn pairs(run: &mut Run, is_local: bool) -> Result<Vec<PortPair>, Failure> {
    let all = run.client.pairs(None, None)?;
    if !is_local {
        return Ok(all);
    }
    let mut names: Vec<String> = all.iter().map(|pair| pair.local.device.clone()).collect();
    names.dedup();
    let mut found = Vec::new();
    while !names.is_empty() {
        let name = names.remove(0);
        let mut partner = None;
        for (at, other) in names.iter().enumerate() {
            if let Some(pair) = run.client.pairs(Some(&name), Some(other))?.into_iter().next() {
                partner = Some((at, pair));
                break;
            }
        }
        match partner {
            Some((at, pair)) => {
                names.remove(at);
                found.push(pair);
            }
            None => found.extend(all.iter().filter(|pair| pair.local.device == name).cloned()),
        }
    }
    Ok(found)
}

fn measure(run: &mut Run, plans: &[Plan], document: &mut Document) -> Result<(), Failure> {
    let bar = output::steps(1000 * plans.len() as u64, "measuring");
    for (at, plan) in plans.iter().enumerate() {
        let why = match plan.transport {
            Transport::Tcp => "for comparison with RDMA",
            _ => "each pair of ports",
        };
        run.set_transport(plan.transport, why);
        let point = run.measure(plan, bar.as_ref(), 1000 * at as u64)?;
        document.points.push(point);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(())
}

fn bandwidths(points: &[Point]) -> Vec<Point> {
    points.iter().filter(|point| point.test == Test::Bandwidth).cloned().collect()
}

/// The verdict on the best pair of ports, or on TCP if there is no RDMA.
fn evaluate(points: &[Point], peer_facts: Option<&HostFacts>) -> Verdict {
    let bandwidths = bandwidths(points);
    let rdma: Vec<Point> =
        bandwidths.iter().filter(|point| point.transport == Transport::Verbs).cloned().collect();
    let evaluated = if rdma.is_empty() { &bandwidths } else { &rdma };
    evaluation::evaluate(evaluated, &facts::host_facts(), peer_facts)
}

/// A row for each path: two measurements, compared with those of TCP.
fn table(points: &[Point]) -> String {
    let header = [
        "transport",
        "Gb/s",
        "times TCP",
        "p50 µs",
        "times TCP",
        "p99 µs",
        "CPU s/GB",
        "peer s/GB",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    let paths: Vec<(&Point, &Point)> =
        points.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
    let Some((tcp, tcp_latency)) = paths.first() else { return String::new() };
    let p50 = |point: &Point| point.latency.as_ref().map(|latency| latency.p50_ns as f64 / 1e3);
    let measurement = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    for (bandwidth, latency) in &paths {
        let bandwidth_ratio = bandwidth.gbps.zip(tcp.gbps).map(|(ours, theirs)| ours / theirs);
        let latency_ratio = p50(latency).zip(p50(tcp_latency)).map(|(ours, theirs)| theirs / ours);
        let p99 = latency.latency.as_ref().map(|latency| latency.p99_ns as f64 / 1e3);
        rows.push([
            name(bandwidth),
            measurement(bandwidth.gbps, 3),
            measurement(bandwidth_ratio, 2),
            measurement(p50(latency), 2),
            measurement(latency_ratio, 2),
            measurement(p99, 2),
            measurement(bandwidth.cpu_seconds_per_gb, 3),
            measurement(bandwidth.peer_cpu_seconds_per_gb, 3),
        ]);
    }
    wrap::table(&rows, wrap::columns())
}

fn name(point: &Point) -> String {
    match (point.transport, point.rails.first()) {
        (Transport::Verbs, Some(rail)) => format!("RDMA {} – {}", rail.local, rail.peer),
        _ => "TCP".to_owned(),
    }
}

/// The size for latency.
const LATENCY_BYTES: u64 = 64;
