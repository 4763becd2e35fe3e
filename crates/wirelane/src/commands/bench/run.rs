//! `wirelane bench bw`, `lat` and `rate`.

use std::time::{Instant, SystemTime};

use clap::{Args, ValueEnum};
use doctor::evaluation::{self, HostFacts};
use indicatif::ProgressBar;
use measure::{Client, ErrorKind, Transports};
use report::{Document, Plan, Point, RunKind, Test, Transport};

use super::args::{PathArgs, ShapeArgs};
use super::expect::Expect;
use super::report::KeepArgs;
use super::target::{Target, TargetArgs};
use super::{csv, facts, perftest, text, transports};
use crate::commands::snapshot::date::rfc3339;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::{logging, output};

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    shape: ShapeArgs,

    #[command(flatten)]
    path: PathArgs,

    /// Exit with 1 unless the result reaches this: a share of the expected bandwidth (90%), 50Gb/s, 10us, 2M/s
    #[arg(long, value_name = "RESULT")]
    expect: Option<Expect>,

    /// Measure with this program instead, at both ends; device, port and GID are chosen as usual
    #[arg(long, value_name = "TOOL")]
    tool: Option<ToolArg>,

    /// With --tool: print the two commands and run nothing
    #[arg(long, requires = "tool")]
    print: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Output format, and what is saved.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print one JSON document (schema: docs/bench.schema.json)
    #[arg(long)]
    pub(super) json: bool,

    /// Print CSV, one line per measurement
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,

    #[command(flatten)]
    pub(super) keep: KeepArgs,
}

/// The program that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolArg {
    Perftest,
}

pub(super) fn run(global: &Global, test: Test, args: &MeasureArgs) -> Result<Exit, Failure> {
    if let Some(expect) = &args.expect {
        expect.check(test)?;
    }
    args.output.keep.check()?;
    let plans = args.shape.plans(test, &args.path);
    for plan in &plans {
        // Report invalid plans before connecting.
        check(plan, args.path.requested(&args.shape).map(|(transport, _)| transport))?;
    }
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let mut transports = transports(global, &settings)?;
    transports.device_request.device =
        args.path.device.clone().or(transports.device_request.device);
    transports.device_request.port = args.path.port.or(transports.device_request.port);
    transports.device_request.gid_index =
        args.path.gid_index.or(transports.device_request.gid_index);
    let target = args.target.find(global, &settings)?;
    let mut document = start_document(test.into());
    document.peer = Some(target.name.clone());
    let local_facts = facts::host_facts();
    let peer_facts = match args.tool {
        Some(ToolArg::Perftest) => {
            let options = (&args.shape, &args.path);
            let show = |point: PrintedPoint<'_>| args.output.show(point);
            let is_done = perftest::run(
                &target,
                &transports,
                test,
                options,
                args.print,
                &mut document,
                show,
            )?;
            if is_done {
                return Ok(Exit::Done);
            }
            None
        }
        None => {
            let requested = args.path.requested(&args.shape);
            let mut run = Run::new(target, transports, requested)?;
            let peer_facts = HostFacts::parse(run.client.about());
            run.measure_all(&plans, &mut document, |point| args.output.show(point))?;
            peer_facts
        }
    };
    finish(document, &local_facts, peer_facts.as_ref(), args.expect.as_ref(), &args.output)
}

/// Checks a plan for the requested transport; if none is requested, for TCP, which has the fewest rules.
fn check(plan: &Plan, transport: Option<Transport>) -> Result<(), Failure> {
    let transport = transport.unwrap_or(Transport::Tcp);
    Ok(Plan { transport, ..plan.clone() }.check(u64::MAX)?)
}

/// A document that starts now.
pub(super) fn start_document(kind: RunKind) -> Document {
    Document::new(kind, rfc3339(SystemTime::now()), facts::host())
}

/// Evaluates a run and prints the result.
pub(super) fn finish(
    mut document: Document,
    local_facts: &HostFacts,
    peer_facts: Option<&HostFacts>,
    expect: Option<&Expect>,
    output: &OutputArgs,
) -> Result<Exit, Failure> {
    let mut verdict = evaluation::evaluate(&document.points, local_facts, peer_facts);
    if let Some(expect) = expect {
        verdict.expectation = Some(expect.evaluate(&document.points, &verdict)?);
    }
    let is_met = verdict.expectation.as_ref().is_none_or(|expectation| expectation.met);
    let is_verified = document.points.iter().all(|point| point.verified != Some(false));
    document.verdict = Some(verdict);
    output.finish(&document)?;
    Ok(if is_met && is_verified { Exit::Done } else { Exit::No })
}

impl OutputArgs {
    /// Prints a measurement as soon as it is available.
    pub(super) fn show(&self, point: PrintedPoint<'_>) -> Result<(), Failure> {
        match (self.json, self.csv) {
            (true, _) => Ok(()),
            (_, true) => output::answer(&csv::rows(point)),
            _ => output::answer(&text::rows(point)),
        }
    }

    /// Prints the verdict or the JSON document, and saves the run.
    pub(super) fn finish(&self, document: &Document) -> Result<(), Failure> {
        match &document.verdict {
            _ if self.json => output::json(document)?,
            Some(verdict) if !self.csv => output::answer(&text::verdict(verdict))?,
            _ => {}
        }
        self.keep.keep(document)
    }
}

/// A measurement to print, and whether it is the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedPoint<'p> {
    pub(super) point: &'p Point,
    pub(super) is_first: bool,
}

/// Consecutive measurements with one server.
pub(super) struct Run {
    target: Target,
    transports: Transports,
    pub(super) client: Client,
    /// The transport in use, and why.
    chosen: (Transport, String),
    /// Transports to fall back to.
    fallbacks: Vec<Transport>,
}

impl Run {
    /// Connects, and chooses the transport unless one is requested.
    pub(super) fn new(
        target: Target,
        transports: Transports,
        requested: Option<(Transport, &'static str)>,
    ) -> Result<Run, Failure> {
        let client = target.connect(&transports)?;
        let (chosen, fallbacks) = match requested {
            Some((transport, why)) => ((transport, why.to_owned()), Vec::new()),
            None => {
                let chosen = client.choose();
                let all = [Transport::Shm, Transport::Verbs, Transport::Tcp];
                let fallbacks = all.into_iter().filter(|other| *other > chosen.0).collect();
                (chosen, fallbacks)
            }
        };
        Ok(Run { target, transports, client, chosen, fallbacks })
    }

    /// Uses this transport from now on.
    pub(super) fn set_transport(&mut self, transport: Transport, why: &str) {
        self.chosen = (transport, why.to_owned());
        self.fallbacks.clear();
    }

    /// Measures all plans, and prints each result.
    pub(super) fn measure_all(
        &mut self,
        plans: &[Plan],
        document: &mut Document,
        mut show: impl FnMut(PrintedPoint<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let bar = output::steps(1000 * plans.len() as u64, "measuring");
        for (at, plan) in plans.iter().enumerate() {
            let point = self.measure(plan, bar.as_ref(), 1000 * at as u64)?;
            let printed = PrintedPoint { point: &point, is_first: at == 0 };
            match &bar {
                Some(bar) => bar.suspend(|| show(printed))?,
                None => show(printed)?,
            }
            document.points.push(point);
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        Ok(())
    }

    /// Measures once; if the chosen transport is refused, over the next one.
    pub(super) fn measure(
        &mut self,
        plan: &Plan,
        bar: Option<&ProgressBar>,
        before: u64,
    ) -> Result<Point, Failure> {
        loop {
            let plan = Plan { transport: self.chosen.0, ..plan.clone() };
            let started = Instant::now();
            let mut progress = |progress: measure::Progress| {
                if let Some(bar) = bar {
                    let part = plan.limit.progress(progress.operations, started.elapsed());
                    bar.set_position(before + (part * 1000.0) as u64);
                }
            };
            match self.client.measure(&plan, &mut progress) {
                Ok(outcome) => {
                    // No fallback after the first result: a sweep must not mix transports.
                    self.fallbacks.clear();
                    let mut point =
                        Point::new(&outcome, &facts::host(), &self.target.name, &self.chosen.1);
                    point.retransmissions = evaluation::retransmissions(&point);
                    return Ok(point);
                }
                Err(error) if error.kind == ErrorKind::Refused && !self.fallbacks.is_empty() => {
                    let next = self.fallbacks.remove(0);
                    let why = format!("{} cannot be used: {error}", self.chosen.0.name());
                    self.chosen = (next, why);
                    self.client = self.target.connect(&self.transports)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
