//! `wirelane bench nccl`: runs nccl-tests with the environment that a job on this machine should have, or reads its
//! log, and compares the result with what the machine should reach.
//!
//! `program.rs` finds the program, `launch.rs` builds the command, `running.rs` runs it, `traffic.rs` samples the
//! ports; `answer.rs` evaluates the run and `table.rs` formats it. `bench torch` shares all but the program. Parsing is
//! in crate `report`.

pub(super) mod answer;
pub(super) mod hosts;
pub(super) mod launch;
mod program;
pub(super) mod running;
mod table;
mod traffic;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use report::RunKind;
use report::nccl::Operation;

use super::run::start_document;
use crate::arguments::size::Size;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use answer::AnswerArgs;
use launch::{JobShapeArgs, Launch};
use running::RunningArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
On one node all its GPUs take part, without mpirun. With --hosts Open MPI's mpirun starts a
process for each GPU there. The environment is that of `wirelane env` on this machine.
Arguments after `--` are passed to the program: `-- -d bfloat16`.
To evaluate a saved log with a snapshot of a node that took part:
`wirelane bench nccl --read job.log --root node7.json`.")]
pub(crate) struct NcclArgs {
    /// Read this log, or the JSON file of `-J`, instead of running anything; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "program", "dry_run", "extra"])]
    read: Option<PathBuf>,

    /// Collective operation
    #[arg(long, value_name = "OPERATION", default_value = "all_reduce")]
    op: Operation,

    /// Path of the program (all_reduce_perf and the like), if it is not found
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    #[command(flatten)]
    place: JobShapeArgs,

    #[command(flatten)]
    running: RunningArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    /// Further arguments for the program
    #[arg(last = true, value_name = "ARGS", help_heading = "Arguments")]
    extra: Vec<OsString>,
}

pub(super) fn run(_global: &Global, args: &NcclArgs) -> Result<Exit, Failure> {
    args.answer.check()?;
    let document = start_document(RunKind::Nccl);
    if let Some(file) = &args.read {
        return args.answer.read(document, file);
    }
    let program = match (&args.program, args.place.dry_run) {
        (Some(program), _) => program.clone(),
        (None, true) => program::find(args.op).unwrap_or_else(|_| args.op.program().into()),
        (None, false) => program::find(args.op)?,
    };
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::failed(format!("create a temporary directory: {error}")))?;
    let json = folder.path().join("run.json");
    let mut words = vec![program.clone().into_os_string()];
    words.extend(arguments(args)?);
    if !args.place.dry_run && program::writes_json(&program) {
        words.extend(["-J".into(), json.clone().into_os_string()]);
    }
    words.extend(args.extra.iter().cloned());
    let mut launch = Launch::new(&args.place, &args.answer.host, words)?;
    launch.enable_nccl_log();
    if args.place.dry_run {
        return launch.show();
    }
    let (run, transferred, ended) = running::run(&launch, &args.running, Some(&json))?;
    args.answer.finish(document, run, Some(&transferred), Some(&ended))
}

/// The usual parameters: from 1 MiB to 1 GiB, doubling, 100 iterations each.
fn arguments(args: &NcclArgs) -> Result<Vec<OsString>, Failure> {
    // With mpirun one process per GPU; without it one process for all.
    let gpus =
        if args.place.hosts.is_some() { 1 } else { args.place.gpus_here(&args.answer.host)? };
    let place = &args.place;
    let words = [
        "-b".to_owned(),
        short(place.from),
        "-e".to_owned(),
        short(place.to),
        "-f".to_owned(),
        "2".to_owned(),
        "-g".to_owned(),
        gpus.to_string(),
        "-n".to_owned(),
        place.iterations.unwrap_or(ITERATIONS).to_string(),
    ];
    Ok(words.into_iter().map(OsString::from).collect())
}

/// A size in nccl-tests' notation: `1M`.
fn short(size: Size) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.iter().find(|(shift, _)| size.0.is_multiple_of(1 << shift));
    unit.map_or_else(
        || size.0.to_string(),
        |(shift, letter)| format!("{}{letter}", size.0 >> shift),
    )
}

const ITERATIONS: u32 = 100;
