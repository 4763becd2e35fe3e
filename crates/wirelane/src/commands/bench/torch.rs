//! `wirelane bench torch`: the same as `bench nccl` where there is PyTorch and no nccl-tests.
//!
//! The script is part of this program, and goes to Python by its command line: nothing has to be on the other hosts but PyTorch.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use report::RunKind;

use super::nccl::answer::AnswerArgs;
use super::nccl::launch::{Launch, PlaceArgs, nvidia_gpus};
use super::nccl::running::{self, RunningArgs};
use super::run::begin;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;

#[derive(Debug, Args)]
#[command(after_help = "\
On one host the script starts its ranks itself; with --hosts Open MPI's mpirun starts them.
By hand, with any launcher that PyTorch knows:
`python3 -c \"$(wirelane bench torch --print-script)\" --op all_reduce > run.log`, once for each
rank, and `wirelane bench torch --read run.log`.")]
pub(crate) struct TorchArgs {
    /// Read what it printed elsewhere, instead of running anything; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "dry_run"])]
    read: Option<PathBuf>,

    /// Print the script, and run nothing
    #[arg(long)]
    print_script: bool,

    /// The collective operation
    #[arg(long, value_name = "OPERATION", default_value = "all_reduce")]
    op: TorchOperation,

    /// What moves the bytes: NCCL for GPUs, gloo for CPUs (default: NCCL where there are GPUs)
    #[arg(long, value_name = "BACKEND")]
    backend: Option<Backend>,

    /// The Python that has PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,

    #[command(flatten)]
    place: PlaceArgs,

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
    let document = begin(RunKind::Torch);
    if let Some(file) = &args.read {
        return args.answer.read(document, file);
    }
    let launch = launch(args)?;
    if args.place.dry_run {
        return launch.show();
    }
    let (run, transferred, ended) = running::run(&launch, &args.running, None)?;
    if run.complaints.iter().any(|line| line.contains("No module named 'torch'")) {
        return Err(Failure::failed(format!(
            "bench torch: {} has no PyTorch: install it (`pip install torch`), or name a Python that has it with --python",
            args.python.display()
        )));
    }
    args.answer.give(document, run, Some(&transferred), Some(&ended))
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
        let usual = if backend == Backend::Nccl { gpus.max(1) } else { PROCESSES };
        add("--processes", args.place.gpus.unwrap_or(usual).to_string());
    }
    let mut launch = Launch::new(&args.place, &args.answer.host, words)?;
    if let Some(hosts) = &args.place.hosts {
        launch.set("MASTER_ADDR", hosts.first());
        launch.set("MASTER_PORT", MASTER_PORT);
    }
    launch.listen();
    launch.show_as(SCRIPT.into(), "\"$(wirelane bench torch --print-script)\"");
    Ok(launch)
}

/// As it is typed.
fn named(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What Python runs.
const SCRIPT: &str = include_str!("torch_script.py");
const ITERATIONS: u32 = 20;
/// Ranks on a host without GPUs.
const PROCESSES: u32 = 2;
/// Where ranks on several hosts meet.
const MASTER_PORT: &str = "29577";
