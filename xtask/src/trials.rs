//! `cargo xtask trials`: links on simulated lanes, as many histories as wanted.

use clap::Args;

use crate::{Failure, shell};

#[derive(Args)]
#[command(after_help = "\
Each history is named by its seed, and is the same each time: one that goes wrong says the command that tells
it again.")]
pub(crate) struct TrialsArgs {
    /// Histories of each story
    #[arg(long, default_value_t = 10_000)]
    pub(crate) count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// Only the story of this name, or those whose names contain it
    pub(crate) story: Option<String>,
}

/// Optimised: a history takes milliseconds then.
pub(crate) fn run(args: &TrialsArgs) -> Result<(), Failure> {
    let mut cargo =
        shell::cargo(&["test", "--release", "--locked", "--package", "wirelane-fabric", "--lib"]);
    let stories = "link::trial::scenarios";
    cargo.args(["--", args.story.as_deref().unwrap_or(stories)]);
    cargo.env("WIRELANE_TRIALS", args.count.to_string());
    cargo.env("WIRELANE_FIRST_SEED", args.first.to_string());
    shell::run(&mut cargo)?;
    println!("good: {} histories of each story, from seed {}", args.count, args.first);
    Ok(())
}
