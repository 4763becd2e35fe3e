//! `wirelane bench bw`, `lat` and `rate`.

use std::time::{Instant, SystemTime};

use clap::{Args, ValueEnum};
use doctor::verdict::{self, Side};
use indicatif::ProgressBar;
use measure::{Client, Kind, Transports};
use report::{Document, Plan, Point, RunKind, Test, Transport};

use super::args::{PathArgs, ShapeArgs};
use super::expect::Expect;
use super::report::KeepArgs;
use super::target::{Target, TargetArgs};
use super::{csv, facts, perftest, text, ways};
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
    way: PathArgs,

    /// End with 1 unless it is as good: a share of the expected bandwidth (90%), 50Gb/s, 10us, 2M/s
    #[arg(long, value_name = "RESULT")]
    expect: Option<Expect>,

    /// Measure with this program instead, at both ends: the device, port and GID are chosen all the same
    #[arg(long, value_name = "TOOL")]
    tool: Option<ToolArg>,

    /// With --tool: only print the two commands
    #[arg(long, requires = "tool")]
    print: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// How the answer is given.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The answer")]
pub(super) struct OutputArgs {
    /// Print one JSON document, as docs/bench.schema.json describes it
    #[arg(long)]
    pub(super) json: bool,

    /// Print a line of comma-separated values for each measurement
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,

    #[command(flatten)]
    pub(super) keep: KeepArgs,
}

/// Whose program measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolArg {
    Perftest,
}

pub(super) fn run(global: &Global, test: Test, args: &MeasureArgs) -> Result<Exit, Failure> {
    if let Some(expect) = &args.expect {
        expect.check(test)?;
    }
    args.output.keep.check()?;
    let plans = args.shape.plans(test, &args.way);
    for plan in &plans {
        // What cannot be meant is said before anybody is called.
        check(plan, args.way.asked(&args.shape).map(|(transport, _)| transport))?;
    }
    let settings = Settings::load(global)?.settings;
    logging::start(global, &settings);
    let mut ways = ways(global, &settings)?;
    ways.device_request.device = args.way.device.clone().or(ways.device_request.device);
    ways.device_request.port = args.way.port.or(ways.device_request.port);
    ways.device_request.gid_index = args.way.gid_index.or(ways.device_request.gid_index);
    let target = args.target.find(global, &settings)?;
    let mut document = begin(test.into());
    document.peer = Some(target.name.clone());
    let here = facts::side();
    let there = match args.tool {
        Some(ToolArg::Perftest) => {
            let way = (&args.shape, &args.way);
            let show = |point: Shown<'_>| args.output.show(point);
            let is_done =
                perftest::run(&target, &ways, test, way, args.print, &mut document, show)?;
            if is_done {
                return Ok(Exit::Done);
            }
            None
        }
        None => {
            let asked = args.way.asked(&args.shape);
            let mut run = Run::new(target, ways, asked)?;
            let there = Side::parse(run.client.about());
            run.all(&plans, &mut document, |point| args.output.show(point))?;
            there
        }
    };
    finish(document, &here, there.as_ref(), args.expect.as_ref(), &args.output)
}

/// What cannot be meant, for the transport that is asked for; for one that is not known yet, for TCP, which has the fewest
/// rules.
fn check(plan: &Plan, transport: Option<Transport>) -> Result<(), Failure> {
    let transport = transport.unwrap_or(Transport::Tcp);
    Ok(Plan { transport, ..plan.clone() }.check(u64::MAX)?)
}

/// A document that begins now.
pub(super) fn begin(kind: RunKind) -> Document {
    Document::new(kind, rfc3339(SystemTime::now()), facts::host())
}

/// Judges a run, and gives the answer.
pub(super) fn finish(
    mut document: Document,
    here: &Side,
    there: Option<&Side>,
    expect: Option<&Expect>,
    output: &OutputArgs,
) -> Result<Exit, Failure> {
    let mut verdict = verdict::evaluate(&document.points, here, there);
    if let Some(expect) = expect {
        verdict.expectation = Some(expect.judge(&document.points, &verdict)?);
    }
    let is_met = verdict.expectation.as_ref().is_none_or(|expectation| expectation.met);
    let is_right = document.points.iter().all(|point| point.verified != Some(false));
    document.verdict = Some(verdict);
    output.give(&document)?;
    Ok(if is_met && is_right { Exit::Done } else { Exit::No })
}

impl OutputArgs {
    /// Shows a measurement as soon as it is made.
    pub(super) fn show(&self, point: Shown<'_>) -> Result<(), Failure> {
        match (self.json, self.csv) {
            (true, _) => Ok(()),
            (_, true) => output::answer(&csv::rows(point)),
            _ => output::answer(&text::rows(point)),
        }
    }

    /// What is to be told at the end, and kept.
    pub(super) fn give(&self, document: &Document) -> Result<(), Failure> {
        match &document.verdict {
            _ if self.json => output::json(document)?,
            Some(verdict) if !self.csv => output::answer(&text::verdict(verdict))?,
            _ => {}
        }
        self.keep.keep(document)
    }
}

/// A measurement to show, and whether it is the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'p> {
    pub(super) point: &'p Point,
    pub(super) is_first: bool,
}

/// One measurement after the other, with one server.
pub(super) struct Run {
    target: Target,
    ways: Transports,
    pub(super) client: Client,
    /// The transport that is used, and why; then those to fall back to.
    chosen: (Transport, String),
    lesser: Vec<Transport>,
}

impl Run {
    /// Connects, and chooses the transport unless it is asked for.
    pub(super) fn new(
        target: Target,
        ways: Transports,
        asked: Option<(Transport, &'static str)>,
    ) -> Result<Run, Failure> {
        let client = target.connect(&ways)?;
        let (chosen, lesser) = match asked {
            Some((transport, why)) => ((transport, why.to_owned()), Vec::new()),
            None => {
                let chosen = client.choose();
                let all = [Transport::Shm, Transport::Verbs, Transport::Tcp];
                let lesser = all.into_iter().filter(|other| *other > chosen.0).collect();
                (chosen, lesser)
            }
        };
        Ok(Run { target, ways, client, chosen, lesser })
    }

    /// Uses this transport from now on.
    pub(super) fn take(&mut self, transport: Transport, why: &str) {
        self.chosen = (transport, why.to_owned());
        self.lesser.clear();
    }

    /// Measures each, and tells as it goes.
    pub(super) fn all(
        &mut self,
        plans: &[Plan],
        document: &mut Document,
        mut show: impl FnMut(Shown<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let bar = output::steps(1000 * plans.len() as u64, "measuring");
        for (at, plan) in plans.iter().enumerate() {
            let point = self.point(plan, bar.as_ref(), 1000 * at as u64)?;
            let shown = Shown { point: &point, is_first: at == 0 };
            match &bar {
                Some(bar) => bar.suspend(|| show(shown))?,
                None => show(shown)?,
            }
            document.points.push(point);
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        Ok(())
    }

    /// Measures once; where the chosen transport is refused, by the next.
    pub(super) fn point(
        &mut self,
        plan: &Plan,
        bar: Option<&ProgressBar>,
        before: u64,
    ) -> Result<Point, Failure> {
        loop {
            let plan = Plan { transport: self.chosen.0, ..plan.clone() };
            let begun = Instant::now();
            let mut progress = |progress: measure::Progress| {
                if let Some(bar) = bar {
                    let part = plan.limit.part(progress.operations, begun.elapsed());
                    bar.set_position(before + (part * 1000.0) as u64);
                }
            };
            match self.client.measure(&plan, &mut progress) {
                Ok(outcome) => {
                    // Nothing to fall back to once something was measured: results of two transports are no sweep.
                    self.lesser.clear();
                    let mut point =
                        Point::new(&outcome, &facts::host(), &self.target.name, &self.chosen.1);
                    point.retransmissions = verdict::retransmissions(&point);
                    return Ok(point);
                }
                Err(error) if error.kind == Kind::Refused && !self.lesser.is_empty() => {
                    let next = self.lesser.remove(0);
                    let why = format!("{} cannot be used: {error}", self.chosen.0.name());
                    self.chosen = (next, why);
                    self.client = self.target.connect(&self.ways)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
