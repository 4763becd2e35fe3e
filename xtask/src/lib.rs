//! The tasks of this repository, one file or folder each. Run `cargo xtask --help`.
//!
//! Tasks are plain programs over other programs: they fail with one line that names the command,
//! and print to the terminal directly.
#![allow(clippy::print_stdout, reason = "a task's report is its output")]

mod check;
mod compare;
mod dashboards;
mod dist;
mod fuzz;
mod lab;
mod libraries;
mod npm;
mod packages;
mod proto;
mod pypi;
mod shell;
mod simulate;
mod soak;
mod test;
mod timeout;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of this repository
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, dependency arrows, import cycles, words, licences, documentation
    Check(check::CheckArgs),
    /// Everything: check, unit, program and layout tests, the lab, the packages
    Test(test::TestArgs),
    /// Run a command in a virtual machine with soft-RoCE devices
    Lab(lab::LabArgs),
    /// Fuzz every parser of bytes from others
    Fuzz(fuzz::FuzzArgs),
    /// Run links on simulated lanes that fail: many seeded runs of each scenario
    Simulate(simulate::SimulateArgs),
    /// Compare our lanes, store and exporter with other programs
    Compare(compare::CompareArgs),
    /// Run the store under load and faults, with a verdict
    Soak(soak::SoakArgs),
    /// Generate the Rust code of the store's .proto
    Proto(proto::ProtoArgs),
    /// Generate Grafana's dashboards from their tables
    Dashboards(dashboards::DashboardsArgs),
    /// Build the tarball, the .deb and the Containerfile, and check what they need
    Dist(dist::DistArgs),
    /// Package every library as for publishing
    Libraries(libraries::LibrariesArgs),
}

/// Runs the task that the arguments name.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Check(args) => check::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => test::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Lab(args) => lab::run(&args),
        Task::Fuzz(args) => fuzz::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Simulate(args) => simulate::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Compare(args) => compare::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Soak(args) => soak::run(&args),
        Task::Proto(args) => proto::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Dashboards(args) => dashboards::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Dist(args) => dist::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Libraries(args) => libraries::run(&args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}

/// An error message. No caller of a task could act on more.
type Failure = String;
