//! `cargo xtask compare fabric`: our lanes beside ucx_perftest, iperf3 and perftest.

mod rows;

use clap::Args;
use serde_json::{Value, json};

use super::{spread, tools};
use crate::{Failed, lab, packages, shell};
use rows::{Better, HOST_ROWS, LAB_ROWS, Row};

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
    /// We are inside the lab
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(args: &FabricArgs) -> Result<(), Failed> {
    if args.inside {
        let results = measure(LAB_ROWS, args)?;
        println!("{}", Value::Array(results));
        return Ok(());
    }
    packages::ensure(&[packages::COMPARE, packages::LAB], args.yes)?;
    shell::run(&mut shell::cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package",
        "fabric",
        "--example",
        "perf",
    ]))?;
    let mut results = measure(HOST_ROWS, args)?;
    if !args.no_lab {
        results.extend(in_the_lab(args)?);
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

fn measure(rows: &[Row], args: &FabricArgs) -> Result<Vec<Value>, Failed> {
    let rows = rows.iter().filter(|row| row.name.contains(&args.only));
    rows.map(|row| pairs(row, args.pairs)).collect()
}

/// Runs ours and theirs in turn.
fn pairs(row: &Row, count: u32) -> Result<Value, Failed> {
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..count {
        eprintln!("{}: pair {} of {count}", row.name, pair + 1);
        let (our, their) = if pair % 2 == 0 {
            let our = (row.ours)()?;
            (our, (row.theirs)()?)
        } else {
            let their = (row.theirs)()?;
            ((row.ours)()?, their)
        };
        ours.push(our);
        theirs.push(their);
        ratios.push(match row.better {
            Better::More => our / their,
            Better::Less => their / our,
        });
    }
    Ok(json!({
        "name": row.name, "peer": row.peer, "unit": row.unit, "aim": row.aim,
        "ours": spread(&ours), "theirs": spread(&theirs), "ratio": spread(&ratios),
    }))
}

/// One machine for all rows: this very program runs inside.
fn in_the_lab(args: &FabricArgs) -> Result<Vec<Value>, Failed> {
    let ourselves =
        std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let ourselves = ourselves.to_string_lossy().into_owned();
    let pairs = args.pairs.to_string();
    let command =
        [&ourselves, "compare", "fabric", "--inside", "--pairs", &pairs, "--only", &args.only];
    let said = lab::output(&command.map(str::to_owned), 1200)?;
    let line = said.lines().find(|line| line.starts_with('['));
    let parsed = line.and_then(|line| serde_json::from_str(line).ok());
    parsed.ok_or_else(|| format!("the lab gave no results: {said}"))
}

fn print(results: &[Value]) {
    println!(
        "{:30} {:34} {:>10} {:>10} {:>6} {:>13} {:>5}",
        "", "beside", "ours", "theirs", "ratio", "range", "aim"
    );
    for row in results {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str, which: &str| row[name][which].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:30} {:34} {:10.2} {:10.2} {:6.2} {:6.2}-{:<6.2} {:5.2}  {}",
            text("name"),
            text("peer"),
            number("ours", "median"),
            number("theirs", "median"),
            number("ratio", "median"),
            number("ratio", "min"),
            number("ratio", "max"),
            row["aim"].as_f64().unwrap_or(f64::NAN),
            text("unit"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_is_a_higher_ratio() {
        let row = Row {
            name: "x",
            peer: "y",
            unit: "us",
            better: Better::Less,
            aim: 1.0,
            ours: || Ok(2.0),
            theirs: || Ok(3.0),
        };
        assert_eq!(pairs(&row, 2).unwrap()["ratio"]["median"], 1.5);
    }
}
