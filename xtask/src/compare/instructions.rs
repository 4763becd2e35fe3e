//! `cargo xtask compare instructions`: the instructions of a message and its answer, and of a get from the store, counted by callgrind.
//!
//! Both ends run in one thread, so that neither waits for the other, and the count does not depend on what else the
//! machine does. Instructions of the kernel are not counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use super::build::Build;
use crate::{Failure, packages, shell};

#[derive(Args)]
pub(super) struct InstructionsArgs {
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Also print the functions that execute most of them
    #[arg(long)]
    functions: bool,
    /// How often each pair of messages is exchanged
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON
    #[arg(long, conflicts_with = "functions")]
    json: bool,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &InstructionsArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::COMPARE_INSTRUCTIONS], args.yes)?;
    let rows: Vec<Row> = rows().filter(|row| row.name().contains(&args.only)).collect();
    if rows.is_empty() {
        return Err(format!("no row has {:?} in its name", args.only));
    }
    let mut programs = Programs::default();
    let mut results: Vec<Value> = Vec::new();
    for row in rows {
        let counts = row.count(&mut programs, args.rounds)?;
        let text = fs::read_to_string(&counts)
            .map_err(|error| format!("read {}: {error}", counts.display()))?;
        let exchange = total(&text)? as f64 / f64::from(args.rounds);
        if args.json {
            results.push(json!({ "name": row.name(), "instructions": exchange.round() }));
        } else {
            println!("{:<24} {exchange:>8.0} instructions", row.name());
        }
        if args.functions {
            println!("{}", functions(&counts)?);
        }
    }
    if args.json {
        println!("{}", json!({ "rounds": args.rounds, "rows": results }));
    }
    Ok(())
}

/// What is counted.
#[derive(Clone, Copy)]
enum Row {
    /// A kind of operation of 64 bytes, once in each direction.
    Exchange { lane: &'static str, work: &'static str },
    /// A value of the store, read over shared memory: its client and its worker.
    Get { bytes: usize },
}

/// The programs, when they are built.
#[derive(Default)]
struct Programs {
    fabric: Option<PathBuf>,
    store: Option<PathBuf>,
}

impl Row {
    fn name(self) -> String {
        match self {
            Row::Exchange { lane, work } => {
                let name = lane.replace('-', " ");
                let lane = if name == lane { format!("lane {name}") } else { name };
                format!("{lane} {work} 64 B")
            }
            Row::Get { bytes } => format!("store shm get of {bytes} B"),
        }
    }

    /// The file with the counts of one run.
    fn count(self, programs: &mut Programs, rounds: u32) -> Result<PathBuf, Failure> {
        let folder = shell::target().join("xtask/instructions");
        fs::create_dir_all(&folder)
            .map_err(|error| format!("create {}: {error}", folder.display()))?;
        let file = folder.join(self.name().replace(' ', "-"));
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind", "--toggle-collect=*counted_round*"]);
        valgrind.arg(format!("--callgrind-out-file={}", file.display()));
        match self {
            Row::Exchange { lane, work } => {
                let program = programs.fabric()?;
                valgrind.arg(program).args([lane, work, &rounds.to_string()]);
            }
            Row::Get { bytes } => {
                valgrind.arg(programs.store()?).args(["--exact", GETS]);
                valgrind.env("WIRELANE_VALUE_BYTES", bytes.to_string());
                valgrind.env("WIRELANE_ROUNDS", rounds.to_string());
            }
        }
        shell::output(&mut valgrind)?;
        Ok(file)
    }
}

impl Programs {
    fn fabric(&mut self) -> Result<&Path, Failure> {
        built(&mut self.fabric, || Build::example("instructions"))
    }

    fn store(&mut self) -> Result<&Path, Failure> {
        built(&mut self.store, || Build::unit_tests("kv-server"))
    }
}

fn built(
    program: &mut Option<PathBuf>,
    build: impl FnOnce() -> Result<PathBuf, Failure>,
) -> Result<&Path, Failure> {
    if program.is_none() {
        *program = Some(build()?);
    }
    program.as_deref().ok_or_else(|| "no program".to_owned())
}

fn rows() -> impl Iterator<Item = Row> {
    let exchanges = LANES
        .into_iter()
        .flat_map(|lane| WORK.into_iter().map(move |work| Row::Exchange { lane, work }));
    exchanges.chain([64, 4096].map(|bytes| Row::Get { bytes }))
}

/// All instructions in a file of callgrind.
fn total(counts: &str) -> Result<u64, Failure> {
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "no counts".to_owned())
}

/// The functions that execute most, by callgrind's own program.
fn functions(counts: &Path) -> Result<String, Failure> {
    let mut annotate = Command::new("callgrind_annotate");
    let text = shell::output(annotate.args(["--auto=no", "--threshold=95"]).arg(counts))?;
    let lines = text.lines().skip_while(|line| !line.contains("file:function")).skip(2);
    Ok(lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

const LANES: [&str; 4] = ["shm", "link-shm", "tcp", "link-tcp"];
const WORK: [&str; 3] = ["send", "imm", "write"];
/// The test of the store that reads values.
const GETS: &str = "workers::one_thread::a_get_is_answered_by_a_worker_in_the_same_thread";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_lane_and_work() {
        let names: Vec<String> = rows().map(|row| row.name()).collect();
        assert_eq!(names[..2], ["lane shm send 64 B", "lane shm imm 64 B"]);
        assert_eq!(names[3], "link shm send 64 B");
        assert_eq!(names[names.len() - 2..], ["store shm get of 64 B", "store shm get of 4096 B"]);
    }

    #[test]
    fn the_total_is_a_line_of_the_file() {
        assert_eq!(total("events: Ir\nfn=(1) a\n3 40\n\ntotals: 1234\n"), Ok(1234));
        assert!(total("events: Ir\n").is_err());
    }
}
