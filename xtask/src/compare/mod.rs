//! `cargo xtask compare`: Wirelane compared with other programs, on this machine, in one run.
//!
//! Runs of ours and theirs alternate, and so does the one that runs first. The result is the median of the ratios,
//! with their range. A ratio above 1 means that ours is better, for latency too.

mod before;
mod bench;
mod build;
mod exporter;
mod fabric;
mod instructions;
mod kv;
mod pack;
mod page;
mod pairs;
mod tools;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::Failure;

#[derive(Args)]
pub(crate) struct CompareArgs {
    #[command(subcommand)]
    comparison: Comparison,
}

#[derive(Subcommand)]
enum Comparison {
    /// The exporter: node_exporter's infiniband collector, on a tree of eight ports
    Exporter(exporter::ExporterArgs),
    /// Lanes: ucx_perftest and iperf3 on this machine, perftest in the lab
    Fabric(fabric::FabricArgs),
    /// `wirelane bench` and perftest, in the lab
    Bench(bench::BenchArgs),
    /// The store: Redis and memcached on this machine, perftest and Mooncake in the lab
    Kv(kv::KvArgs),
    /// This tree and an earlier commit, on the hot paths
    Before(before::BeforeArgs),
    /// The instructions of a message and its answer, counted by callgrind
    Instructions(instructions::InstructionsArgs),
    /// All comparisons with other programs, as one page of Markdown
    Page(page::PageArgs),
    /// An archive of all programs, for a machine where nothing can be installed
    Pack(pack::PackArgs),
    /// One connection to Redis or memcached that checks every value it reads
    #[command(hide = true)]
    Generator(kv::GeneratorArgs),
    /// Files that are opened, read and closed
    #[command(hide = true)]
    Files(kv::FilesArgs),
    /// Values that are copied out of much memory
    #[command(hide = true)]
    Copy(kv::CopyArgs),
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    match &args.comparison {
        Comparison::Exporter(args) => exporter::run(args),
        Comparison::Fabric(args) => fabric::run(args),
        Comparison::Bench(args) => bench::run(args),
        Comparison::Kv(args) => kv::run(args),
        Comparison::Before(args) => before::run(args),
        Comparison::Instructions(args) => instructions::run(args),
        Comparison::Page(args) => page::run(args),
        Comparison::Generator(args) => kv::generate(args),
        Comparison::Pack(args) => pack::run(args),
        Comparison::Files(args) => kv::read_files(args),
        Comparison::Copy(args) => kv::copy(args),
    }
}

/// The median and the range of some results.
fn spread(values: &[f64]) -> Value {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    json!({ "median": median(&sorted), "min": sorted[0], "max": sorted[sorted.len() - 1] })
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
