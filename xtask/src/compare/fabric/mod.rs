//! `cargo xtask compare fabric`: compares our lanes with ucx_perftest, iperf3 and perftest.

mod rows;

use clap::Args;
use serde_json::{Value, json};

use super::build::PROFILE;
use super::pack::Pack;
use super::pairs::{Subject, measure_pairs, print};
use super::tools;
use crate::{Failure, packages, shell};
use rows::{HOST_ROWS, LAB_ROWS, Row};

#[derive(Args)]
pub(super) struct FabricArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How often each pair is run
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Leave out the comparisons in the lab
    #[arg(long)]
    no_lab: bool,
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

pub(super) fn run(args: &FabricArgs) -> Result<(), Failure> {
    if args.inside {
        let results = measure(LAB_ROWS, args)?;
        println!("{}", Value::Array(results));
        return Ok(());
    }
    let packed = Pack::current().is_some();
    if !packed {
        packages::ensure(&[packages::COMPARE, packages::LAB], args.yes)?;
        let build = ["build", "--quiet", "--profile", PROFILE, "--package", "wirelane-fabric"];
        shell::run(shell::cargo(&build).args(["--example", "perf"]))?;
    }
    let mut results = measure(HOST_ROWS, args)?;
    if !args.no_lab && !packed {
        results.extend(tools::in_the_lab("fabric", args.pairs, &args.only, 1200)?);
    }
    if args.json {
        println!(
            "{}",
            json!({ "pairs": args.pairs, "machine": tools::machine(), "rows": results })
        );
    } else {
        print(&results);
    }
    Ok(())
}

fn measure(rows: &[Row], args: &FabricArgs) -> Result<Vec<Value>, Failure> {
    let rows = rows.iter().filter(|row| row.name.contains(&args.only));
    rows.map(|row| pairs(row, args.pairs)).collect()
}

fn pairs(row: &Row, count: u32) -> Result<Value, Failure> {
    let Row { name, peer, unit, better, aim, .. } = *row;
    let pairs = measure_pairs(name, count, row.ours, row.theirs)?;
    Ok(Subject { name, peer, unit, better, aim }.row(&pairs))
}
