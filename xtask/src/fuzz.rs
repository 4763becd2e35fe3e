//! `cargo xtask fuzz`: libFuzzer at every reader of what others wrote.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::Args;

use crate::{Failure, packages, shell};

#[derive(Args)]
#[command(after_help = "\
What it finds worth keeping is kept in target/fuzz/corpus and used again. A crash prints its bytes and the
command that repeats it.")]
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

/// Targets of `fabric::fuzz`, one of the store's, those of `node::fuzz`, two of `doctor`, and one of `report`.
const TARGETS: [&str; 17] = [
    "engine",
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

/// The compiler's coverage marks, which libFuzzer steers by. They need no nightly compiler.
const MARKS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table";

pub(crate) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::FUZZ], args.yes)?;
    let targets: Vec<&str> = match args.targets.is_empty() {
        true => TARGETS.to_vec(),
        false => args.targets.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = targets.iter().find(|target| !TARGETS.contains(target)) {
        return Err(format!("no target {unknown}; there is {}", TARGETS.join(", ")));
    }
    let program = build()?;
    // One on each CPU.
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
    fs::create_dir_all(&folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
    let mut fuzz = Command::new(program);
    fuzz.env("WIRELANE_FUZZ", target).arg(&folder).current_dir(&folder);
    fuzz.arg(format!("-max_total_time={seconds}"));
    // No target takes more in one piece that would be worth the time.
    fuzz.args(["-max_len=1000", "-len_control=0", "-timeout=10", "-print_final_stats=1"]);
    let output = both_outputs(&mut fuzz)
        .map_err(|output| format!("WIRELANE_FUZZ={target} {program}: {output}"))?;
    let runs = output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    println!("good: {target}, {} inputs in {seconds} s", runs.unwrap_or("?").trim());
    Ok(())
}

fn build() -> Result<String, Failure> {
    // For a target by name, so that build scripts are built without the marks.
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let mut cargo = shell::cargo(&["build", "--release", "--locked", "--quiet"]);
    let folder = shell::target().join("fuzz");
    cargo.args(["--manifest-path", "fuzz/Cargo.toml", "--target", TARGET, "--target-dir"]);
    cargo.arg(&folder).env("RUSTFLAGS", MARKS);
    shell::run(&mut cargo)?;
    Ok(folder.join(TARGET).join("release/fuzz").to_string_lossy().into_owned())
}

/// What a program says; libFuzzer reports on stderr alone.
fn both_outputs(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}
