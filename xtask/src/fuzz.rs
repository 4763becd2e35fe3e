//! `cargo xtask fuzz`: libFuzzer on every parser of bytes from others.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::Args;

use crate::{Failure, packages, shell};

#[derive(Args)]
#[command(after_help = "\
The corpus is kept in target/fuzz/corpus. A crash prints its input and the command that repeats it.")]
pub(crate) struct FuzzArgs {
    /// Seconds for each target
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Only these targets
    targets: Vec<String>,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

/// Targets of `fabric::fuzz`, `kv_proto::fuzz`, `node::fuzz`, `doctor::fuzz` and `report::fuzz`.
const TARGETS: [&str; 17] = [
    "stream_engine",
    "ring",
    "peer_socket",
    "offers",
    "handshake",
    "link_messages",
    "link_peer",
    "remote_region",
    "kv_messages",
    "netlink",
    "cable",
    "snapshot",
    "tree",
    "texts",
    "capture",
    "error_lines",
    "nccl_output",
];

/// The compiler's coverage instrumentation for libFuzzer. It needs no nightly compiler. No warning: `cargo xtask check` does not compile
/// the package `fuzz`.
const FLAGS: &str = "-Dwarnings -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table";

pub(crate) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::FUZZ], args.yes)?;
    let targets: Vec<&str> = match args.targets.is_empty() {
        true => TARGETS.to_vec(),
        false => args.targets.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = targets.iter().find(|target| !TARGETS.contains(target)) {
        return Err(format!("unknown target {unknown}; targets: {}", TARGETS.join(", ")));
    }
    let program = build()?;
    // One per CPU.
    let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(targets.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(target) = next() {
                fuzz(&program, target, args.seconds)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })
}

fn fuzz(program: &str, target: &str, seconds: u32) -> Result<(), Failure> {
    let folder = shell::target().join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder).map_err(|error| format!("create {}: {error}", folder.display()))?;
    let mut fuzz = Command::new(program);
    fuzz.env("WIRELANE_FUZZ", target).arg(&folder).current_dir(&folder);
    fuzz.arg(format!("-max_total_time={seconds}"));
    // Longer inputs find nothing more in these targets.
    fuzz.args(["-max_len=1000", "-len_control=0", "-timeout=10", "-print_final_stats=1"]);
    let output = stderr_of(&mut fuzz)
        .map_err(|output| format!("WIRELANE_FUZZ={target} {program}: {output}"))?;
    let runs = output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    println!("good: {target}, {} inputs in {seconds} s", runs.unwrap_or("?").trim());
    Ok(())
}

fn build() -> Result<String, Failure> {
    // With an explicit target, so that build scripts are built without the flags.
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let mut cargo = shell::cargo(&["build", "--release", "--locked", "--quiet"]);
    let folder = shell::target().join("fuzz");
    cargo.args(["--manifest-path", "fuzz/Cargo.toml", "--target", TARGET, "--target-dir"]);
    cargo.arg(&folder).env("RUSTFLAGS", FLAGS);
    shell::run(&mut cargo)?;
    Ok(folder.join(TARGET).join("release/fuzz").to_string_lossy().into_owned())
}

/// A program's stderr, where libFuzzer reports.
fn stderr_of(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}
