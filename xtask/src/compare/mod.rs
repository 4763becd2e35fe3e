//! `cargo xtask compare`: Wirelane beside the best programs of the field, on this machine, in one run.
//!
//! Ours and theirs take turns, and who begins takes turns too; what counts is the median of the ratios,
//! with the whole range beside it. A ratio above 1 means that we are ahead, for latency too.

mod fabric;
mod tools;

use clap::{Args, Subcommand};

use crate::Failed;

#[derive(Args)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lanes: ucx_perftest and iperf3 here, perftest in the lab
    Fabric(fabric::FabricArgs),
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failed> {
    match &args.what {
        What::Fabric(args) => fabric::run(args),
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
