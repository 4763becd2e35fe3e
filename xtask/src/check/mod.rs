//! `cargo xtask check`: static checks of the code.

mod arrows;
mod cycles;
mod licences;
mod limits;
mod metadata;
mod repeats;
mod sources;
mod words;

use clap::Args;

use crate::{Failure, dashboards, proto, shell};
use limits::Counts;

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Only lower the limits of xtask/limits.txt to the current counts
    #[arg(long)]
    lower_limits: bool,
    /// Only list the places of a banned word
    #[arg(long, value_name = "WORD", conflicts_with = "lower_limits")]
    word: Option<String>,
}

/// A part of the check: its name and function.
type Part = (&'static str, fn() -> Result<(), Failure>);

const PARTS: &[Part] = &[
    ("format", format),
    ("dependency arrows", || arrows::check(&metadata::packages()?)),
    ("licences and versions", || licences::check(&metadata::packages()?)),
    ("lock files", lock_files),
    ("limits", || {
        MEASURES.iter().try_for_each(|(measure, count)| limits::check(measure, &count()?))
    }),
    ("dashboards", dashboards::check),
    ("generated code of the .proto", proto::check),
    ("lints", lints),
    ("documentation", documentation),
];

/// A count that may only fall: its name and function.
type Measure = (&'static str, fn() -> Result<Counts, Failure>);

const MEASURES: &[Measure] = &[
    ("cycle", cycles::count),
    ("length", length),
    ("repeated", repeats::count),
    ("word", words::count),
];

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    if args.lower_limits {
        let count = |(measure, count): &Measure| Ok((*measure, count()?));
        return limits::lower(&MEASURES.iter().map(count).collect::<Result<Vec<_>, Failure>>()?);
    }
    if let Some(word) = &args.word {
        words::list(word)?.iter().for_each(|place| println!("{place}"));
        return Ok(());
    }
    for (name, part) in PARTS {
        part().map_err(|error| format!("{name}: {error}"))?;
        println!("good: {name}");
    }
    Ok(())
}

fn format() -> Result<(), Failure> {
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
    OUTSIDE.iter().try_for_each(|manifest| {
        shell::run(&mut shell::cargo(&["fmt", "--check", "--manifest-path", manifest]))
    })
}

/// The lock files of packages outside the workspace, which cargo would check only when they are built.
fn lock_files() -> Result<(), Failure> {
    for manifest in OUTSIDE {
        let arguments = ["metadata", "--format-version=1", "--locked", "--manifest-path", manifest];
        shell::output(&mut shell::cargo(&arguments))?;
    }
    Ok(())
}

fn lints() -> Result<(), Failure> {
    let mut cargo = shell::cargo(&["clippy", "--quiet", "--all-targets"]);
    shell::run(cargo.args(WORKSPACE).args(["--", "-D", "warnings"]))
}

fn documentation() -> Result<(), Failure> {
    let mut cargo = shell::cargo(&["doc", "--quiet", "--no-deps", "--document-private-items"]);
    shell::run(cargo.args(WORKSPACE).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Packages outside the workspace.
const OUTSIDE: [&str; 2] = ["fuzz/Cargo.toml", "xtask/proto/Cargo.toml"];

/// The same for lints and documentation: with other features, dependencies would be compiled again.
const WORKSPACE: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// The number of lines by which the first pages are too long.
fn length() -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for source in sources::with_extensions(&["md"])? {
        let limit = MAX_LINES.iter().find(|(path, _)| *path == source.path);
        if let Some((path, limit)) = limit {
            let beyond = source.text.lines().count().saturating_sub(*limit);
            counts.insert(format!("{path} beyond {limit}"), beyond);
        }
    }
    Ok(counts)
}

const MAX_LINES: &[(&str, usize)] = &[("ARCHITECTURE.md", 160), ("README.md", 180)];
