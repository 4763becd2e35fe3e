//! `wirelane bench torch`: the same as `bench nccl`, with PyTorch instead of nccl-tests.
//!
//! The script is part of this program, and is passed to Python on its command line: other hosts need only PyTorch.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use report::RunKind;

use super::nccl::answer::AnswerArgs;
use super::nccl::launch::{JobShapeArgs, Launch, nvidia_gpus};
use super::nccl::running::{self, RunningArgs};
use super::run::start_document;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
#[command(after_help = "\
On one host the script starts its ranks itself; with --hosts Open MPI's mpirun starts them.
Manually, with any launcher that PyTorch supports:
`python3 -c \"$(wirelane bench torch --print-script)\" --op all_reduce > run.log`, once for each
rank, and `wirelane bench torch --read run.log`.")]
pub(crate) struct TorchArgs {
    /// Read this log instead of running anything; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "dry_run"])]
    read: Option<PathBuf>,

    /// Print the script and run nothing
    #[arg(long)]
    print_script: bool,

    /// Collective operation
    #[arg(long, value_name = "OPERATION", default_value = "all_reduce")]
    op: TorchOperation,

    /// PyTorch backend: NCCL for GPUs, gloo for CPUs (default: NCCL if there are GPUs)
    #[arg(long, value_name = "BACKEND")]
    backend: Option<Backend>,

    /// Python interpreter with PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,

    #[command(flatten)]
    place: JobShapeArgs,

    #[command(flatten)]
    running: RunningArgs,

    #[command(flatten)]
    answer: AnswerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum TorchOperation {
    AllReduce,
    AllGather,
    ReduceScatter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Nccl,
    Gloo,
}

pub(super) fn run(_global: &Global, args: &TorchArgs) -> Result<Exit, Failure> {
    if args.print_script {
        output::answer(SCRIPT)?;
        return Ok(Exit::Done);
    }
    args.answer.check()?;
    let document = start_document(RunKind::Torch);
    if let Some(file) = &args.read {
        return args.answer.read(document, file);
    }
    let launch = launch(args)?;
    if args.place.dry_run {
        return launch.show();
    }
    let (run, transferred, ended) = running::run(&launch, &args.running, None)?;
    if run.errors.iter().any(|line| line.contains("No module named 'torch'")) {
        return Err(Failure::failed(format!(
            "bench torch: {} has no PyTorch: install it (`pip install torch`), or pass --python PROGRAM",
            args.python.display()
        )));
    }
    args.answer.finish(document, run, Some(&transferred), Some(&ended))
}

fn launch(args: &TorchArgs) -> Result<Launch, Failure> {
    let gpus = nvidia_gpus(&args.answer.host)?;
    let backend = args.backend.unwrap_or(if gpus > 0 { Backend::Nccl } else { Backend::Gloo });
    let mut words: Vec<OsString> = vec![args.python.clone().into(), "-c".into(), SCRIPT.into()];
    let mut add = |name: &str, value: String| words.extend([name.into(), value.into()]);
    add("--backend", named(&backend));
    add("--op", named(&args.op));
    add("--from-bytes", args.place.from.0.to_string());
    add("--to-bytes", args.place.to.0.to_string());
    add("--iterations", args.place.iterations.unwrap_or(ITERATIONS).to_string());
    if args.place.hosts.is_none() {
        let default = if backend == Backend::Nccl { gpus.max(1) } else { CPU_RANKS };
        add("--processes", args.place.gpus.unwrap_or(default).to_string());
    }
    let mut launch = Launch::new(&args.place, &args.answer.host, words)?;
    if let Some(hosts) = &args.place.hosts {
        launch.set("MASTER_ADDR", hosts.first());
        launch.set("MASTER_PORT", MASTER_PORT);
    }
    launch.enable_nccl_log();
    launch.abbreviate(SCRIPT.into(), "\"$(wirelane bench torch --print-script)\"");
    Ok(launch)
}

/// Its name on the command line.
fn named(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The script for Python.
const SCRIPT: &str = include_str!("torch_script.py");
const ITERATIONS: u32 = 20;
/// Number of ranks on a host without GPUs.
const CPU_RANKS: u32 = 2;
/// The rendezvous port of ranks on several hosts.
const MASTER_PORT: &str = "29577";
