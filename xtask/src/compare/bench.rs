//! `cargo xtask compare bench`: compares `wirelane bench` with perftest, over a wire of the lab.
//!
//! The benchmark must not be the bottleneck: its results should be at least those of perftest.

use clap::Args;
use serde_json::{Value, json};

use super::build::PROFILE;
use super::pairs::{Better, Subject, measure_pairs, print};
use super::tools;
use crate::{Failure, packages, shell};

#[derive(Args)]
pub(super) struct BenchArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How often each pair is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
    /// Set inside the lab
    #[arg(long, hide = true)]
    inside: bool,
}

/// A test with its message size and number of operations.
struct Row {
    test: &'static str,
    size: usize,
    rounds: u32,
}

impl Row {
    fn name(&self) -> String {
        let what = if self.test == "bw" { "bandwidth" } else { "latency" };
        format!("write {what} {} B", self.size)
    }

    fn ours(&self) -> Result<f64, Failure> {
        tools::wirelane_bench(self.test, self.size, self.rounds)
    }

    /// The median, as ours: `t_typical`.
    fn theirs(&self) -> Result<f64, Failure> {
        match self.test {
            "bw" => tools::perftest("ib_write_bw", self.size, self.rounds),
            _ => tools::perftest_column("ib_write_lat", self.size, self.rounds, 4),
        }
    }
}

pub(super) fn run(args: &BenchArgs) -> Result<(), Failure> {
    if args.inside {
        let rows = ROWS.iter().filter(|row| row.name().contains(&args.only));
        let results = rows.map(|row| pairs(row, args.pairs)).collect::<Result<Vec<_>, _>>()?;
        println!("{}", Value::Array(results));
        return Ok(());
    }
    packages::ensure(&[packages::LAB], args.yes)?;
    let build = ["build", "--quiet", "--profile", PROFILE, "--package", "wirelane"];
    shell::run(&mut shell::cargo(&build))?;
    let results = tools::in_the_lab("bench", args.pairs, &args.only, 1800)?;
    if args.json {
        let machine = tools::machine();
        println!("{}", json!({ "pairs": args.pairs, "machine": machine, "rows": results }));
    } else {
        print(&results);
    }
    let short: Vec<&str> = results
        .iter()
        .filter(|row| row["ratio"]["median"].as_f64() < row["aim"].as_f64())
        .filter_map(|row| row["name"].as_str())
        .collect();
    match short.is_empty() {
        true => Ok(()),
        false => Err(format!("below the target ratio: {}", short.join(", "))),
    }
}

fn pairs(row: &Row, count: u32) -> Result<Value, Failure> {
    let name = row.name();
    let (peer, unit, better, aim) = match row.test {
        "lat" => ("ib_write_lat", "us", Better::Less, 1.0 / 1.1),
        _ => ("ib_write_bw", "MB/s", Better::More, 0.9),
    };
    let pairs = measure_pairs(&name, count, || row.ours(), || row.theirs())?;
    Ok(Subject { name: &name, peer, unit, better, aim }.row(&pairs))
}

const ROWS: &[Row] = &[
    Row { test: "bw", size: 64, rounds: 10_000 },
    Row { test: "bw", size: 4096, rounds: 5000 },
    Row { test: "bw", size: 65_536, rounds: 1000 },
    Row { test: "bw", size: 1 << 20, rounds: 100 },
    Row { test: "lat", size: 64, rounds: 2000 },
    Row { test: "lat", size: 4096, rounds: 2000 },
    Row { test: "lat", size: 65_536, rounds: 500 },
    Row { test: "lat", size: 1 << 20, rounds: 50 },
];
