//! `cargo xtask compare before COMMIT`: compares this tree with an earlier commit, on the hot paths.
//!
//! Both are built with the profile of the same name, as each tree defines it.

use clap::Args;
use serde_json::{Value, json};

use super::build::{self, Build};
use super::kv::{Bench, start};
use super::pack::Pack;
use super::pairs::{Better, Subject, measure_pairs, print};
use super::tools;
use crate::{Failure, packages};

#[derive(Args)]
pub(super) struct BeforeArgs {
    /// The commit, tag or branch to compare with
    commit: String,
    /// The profile of both builds; `release` is what users build
    #[arg(long, default_value = build::PROFILE)]
    profile: String,
    /// How often each pair is run
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &BeforeArgs) -> Result<(), Failure> {
    if Pack::current().is_none() {
        packages::ensure(&[packages::COMPARE_BEFORE], args.yes)?;
    }
    let rows: Vec<Row> = rows().filter(|row| row.name.contains(&args.only)).collect();
    if rows.is_empty() {
        return Err(format!("no row has {:?} in its name", args.only));
    }
    let before = Build::of_commit(&args.commit, &args.profile)?;
    let now = Build::of_this_tree(&args.profile)?;
    let measure = |row: &Row| row.measure(&now, &before, args);
    let results = rows.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let machine = tools::machine();
        println!("{}", json!({ "pairs": args.pairs, "machine": machine, "rows": results }));
    } else {
        print(&results);
    }
    Ok(())
}

/// One measured operation.
struct Row {
    name: String,
    load: Load,
}

enum Load {
    /// A lane or a link, measured by `examples/perf`.
    Lane(&'static [&'static str]),
    /// One client of the store, and its ratio of reads.
    Store(Bench, &'static str),
}

impl Row {
    fn measure(&self, now: &Build, before: &Build, args: &BeforeArgs) -> Result<Value, Failure> {
        let run = |build: &Build| self.load.run(build);
        let pairs = measure_pairs(&self.name, args.pairs, || run(now), || run(before))?;
        let (unit, better) = self.load.unit();
        let subject = Subject { name: &self.name, peer: &args.commit, unit, better, aim: 0.95 };
        Ok(subject.row(&pairs))
    }
}

impl Load {
    fn run(&self, build: &Build) -> Result<f64, Failure> {
        match self {
            Load::Lane(arguments) => tools::perf_of(build, arguments),
            Load::Store(bench, reads) => {
                let server = start(&build.program("wirelane"), "512MiB")?;
                bench.rate_of(&server, reads, 1000)
            }
        }
    }

    fn unit(&self) -> (&'static str, Better) {
        match self {
            Load::Lane([_, test, ..]) if test.ends_with("_bw") => ("MB/s", Better::More),
            Load::Lane([_, "write_16", ..]) => ("ns", Better::Less),
            Load::Lane(_) => ("us", Better::Less),
            Load::Store(..) => ("1/s", Better::More),
        }
    }
}

fn rows() -> impl Iterator<Item = Row> {
    let lanes = LANES
        .iter()
        .map(|(name, arguments)| Row { name: (*name).to_owned(), load: Load::Lane(arguments) });
    let stores = STORES.iter().flat_map(|(name, bench)| {
        [("get", "1.0"), ("put", "0.0")].map(|(verb, reads)| Row {
            name: format!("{verb} {name}"),
            load: Load::Store(*bench, reads),
        })
    });
    lanes.chain(stores)
}

const LANES: &[(&str, &[&str])] = &[
    ("lane shm write 64 B", &["shm", "write_lat", "64", "1000000"]),
    ("lane shm write+imm 64 B", &["shm", "imm_lat", "64", "500000"]),
    ("lane shm 16 writes of 64 B", &["shm", "write_16", "64", "5000000"]),
    ("lane shm write 1 MiB", &["shm", "write_bw", "1048576", "20000"]),
    ("lane tcp write 64 B", &["tcp", "write_lat", "64", "50000"]),
    ("lane tcp write+imm 64 B", &["tcp", "imm_lat", "64", "50000"]),
    ("lane tcp write 1 MiB", &["tcp", "write_bw", "1048576", "8000"]),
    ("link shm 16 writes of 64 B", &["link-shm", "write_16", "64", "5000000"]),
    ("link shm write+imm 64 B", &["link-shm", "imm_lat", "64", "500000"]),
    ("link tcp write+imm 64 B", &["link-tcp", "imm_lat", "64", "50000"]),
];

const STORES: &[(&str, Bench)] = &[
    ("shm 4 KiB, one in flight", bench("shm", 4 << 10, 1, 200_000)),
    ("shm 4 KiB, 16 in flight", bench("shm", 4 << 10, 16, 1_000_000)),
    ("shm 64 KiB, 16 in flight", bench("shm", 64 << 10, 16, 100_000)),
    ("tcp 4 KiB, one in flight", bench("tcp", 4 << 10, 1, 50_000)),
    ("tcp 4 KiB, 16 in flight", bench("tcp", 4 << 10, 16, 300_000)),
    ("tcp 64 KiB, 16 in flight", bench("tcp", 64 << 10, 16, 50_000)),
];

const fn bench(transport: &'static str, size: usize, depth: usize, ops: usize) -> Bench {
    Bench { transport, size, depth, ops, device: None, clients: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_are_unique() {
        let names: std::collections::HashSet<String> = rows().map(|row| row.name).collect();
        assert_eq!(names.len(), LANES.len() + 2 * STORES.len());
    }

    #[test]
    fn higher_bandwidth_and_lower_latency_are_better() {
        for (name, arguments) in LANES {
            let (_, better) = Load::Lane(arguments).unit();
            assert_eq!(better == Better::More, name.ends_with("1 MiB"), "{name}");
        }
    }
}
