//! `cargo xtask simulate`: links on simulated lanes, in many seeded runs of each scenario.

use clap::Args;

use crate::{Failure, shell};

#[derive(Args)]
#[command(after_help = "\
Each run is determined by its seed: one that fails prints the command that repeats it.")]
pub(crate) struct SimulateArgs {
    /// Runs of each scenario
    #[arg(long, default_value_t = 10_000)]
    pub(crate) count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// Only scenarios whose names contain this
    pub(crate) scenario: Option<String>,
}

/// Optimised: a run then takes milliseconds.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let mut cargo =
        shell::cargo(&["test", "--release", "--locked", "--package", "wirelane-fabric", "--lib"]);
    let scenarios = "link::simulation::scenarios";
    cargo.args(["--", args.scenario.as_deref().unwrap_or(scenarios)]);
    cargo.env("WIRELANE_SIMULATIONS", args.count.to_string());
    cargo.env("WIRELANE_FIRST_SEED", args.first.to_string());
    shell::run(&mut cargo)?;
    println!("good: {} runs of each scenario, from seed {}", args.count, args.first);
    Ok(())
}
