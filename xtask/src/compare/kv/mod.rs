//! `cargo xtask compare kv`: compares the store with Redis and memcached on this machine, and with perftest and
//! Mooncake in the lab.
//!
//! Servers run on one CPU and clients on another, the same two for all, but for rows of all CPUs. Values are checked where
//! a generator supports it. Start at `plan`, which lists the comparisons; `comparison` runs one.

mod busy;
mod comparison;
mod copy;
mod disk;
mod files;
mod generator;
mod idle;
mod load;
mod memcached;
mod memory;
mod mooncake;
mod mooncake_store;
mod pattern;
mod plan;
mod redis;
mod report;
mod server;
mod wirelane;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::build::PROFILE;
use super::pack::Pack;
use super::tools;
use crate::{Failure, lab, packages, shell};
pub(super) use copy::{CopyArgs, copy};
pub(super) use files::{FilesArgs, read_files};
pub(super) use generator::{GeneratorArgs, generate};
use plan::Plan;
pub(super) use wirelane::{Bench, start};

#[derive(Args)]
pub(super) struct KvArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How often each program is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Leave out the comparisons in the lab
    #[arg(long)]
    no_lab: bool,
    /// Only rows whose name contains this
    #[arg(long, default_value = "", value_name = "NAME")]
    only: String,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
    /// Leave out our own store
    #[arg(long, hide = true)]
    peers_only: bool,
    /// Set inside the lab: the path of Mooncake's program
    #[arg(long, hide = true, value_name = "MOONCAKE")]
    inside: Option<PathBuf>,
}

pub(super) fn run(args: &KvArgs) -> Result<(), Failure> {
    if args.inside.is_some() {
        println!("{}", Value::Array(measure(&plan::IN_THE_LAB, args)));
        return Ok(());
    }
    let on_the_host = plan::on_the_host();
    let is_selected = |plans: &[Plan]| plans.iter().any(|plan| plan.matches(&args.only));
    let with_lab = !args.no_lab && Pack::current().is_none() && is_selected(&plan::IN_THE_LAB);
    if !with_lab && !is_selected(&on_the_host) {
        return Err(format!("no row has {:?} in its name", args.only));
    }
    prepare(args, with_lab)?;
    let mut rows = measure(&on_the_host, args);
    if with_lab {
        rows.extend(in_the_lab(args)?);
    }
    if args.json {
        println!("{}", json!({ "runs": args.runs, "machine": tools::machine(), "rows": rows }));
    } else {
        report::print(&rows);
    }
    match rows.iter().filter(|row| row.get("error").is_some()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} rows failed", rows.len())),
    }
}

/// Installs and builds what will run.
fn prepare(args: &KvArgs, with_lab: bool) -> Result<(), Failure> {
    if Pack::current().is_some() {
        return Ok(());
    }
    packages::ensure(&[packages::COMPARE_KV], args.yes)?;
    if with_lab {
        packages::ensure(&[packages::LAB], args.yes)?;
    }
    let uses_mooncake =
        |plan: &Plan| plan.matches(&args.only) && matches!(plan, Plan::Mooncake { .. });
    if with_lab || plan::on_the_host().iter().any(uses_mooncake) {
        packages::ensure(&[packages::MOONCAKE], args.yes)?;
    }
    let build = ["build", "--quiet", "--profile", PROFILE, "--package"];
    shell::run(shell::cargo(&build).args(["wirelane-fabric", "--example", "perf"]))?;
    shell::run(shell::cargo(&build).args(["xtask", "--bin", "xtask"]))?;
    if !args.peers_only {
        shell::run(shell::cargo(&build).args(["wirelane", "--bin", "wirelane"]))?;
    }
    Ok(())
}

/// A failed row is reported, and the others continue.
fn measure(plans: &[Plan], args: &KvArgs) -> Vec<Value> {
    let plans = plans.iter().filter(|plan| plan.matches(&args.only));
    let rows = plans.flat_map(|plan| match plan.run(args) {
        Ok(rows) => rows,
        Err(error) => plan.rows().map(|name| json!({ "name": name, "error": error })).collect(),
    });
    let is_selected =
        |row: &Value| row["name"].as_str().is_some_and(|name| name.contains(&args.only));
    rows.filter(is_selected).collect()
}

/// Runs this program in one machine for all rows.
fn in_the_lab(args: &KvArgs) -> Result<Vec<Value>, Failure> {
    let ourselves =
        std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let mut command = vec![ourselves.to_string_lossy().into_owned()];
    let mooncake = mooncake::program()?.to_string_lossy().into_owned();
    let runs = args.runs.to_string();
    let words = ["compare", "kv", "--runs", &runs, "--only", &args.only, "--inside", &mooncake];
    command.extend(words.map(str::to_owned));
    if args.peers_only {
        command.push("--peers-only".to_owned());
    }
    let output = lab::output(&command, 1800)?;
    let line = output.lines().find(|line| line.starts_with('['));
    let parsed = line.and_then(|line| serde_json::from_str(line).ok());
    parsed.ok_or_else(|| format!("the lab returned no results: {output}"))
}
