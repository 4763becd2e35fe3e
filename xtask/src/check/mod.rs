//! `cargo xtask check`: what can be said about the code without running it.

mod arrows;
mod licences;
mod metadata;

use crate::{Failed, dashboards, proto, shell};

/// A part of the check: its name and what it does.
type Part = (&'static str, fn() -> Result<(), Failed>);

const PARTS: &[Part] = &[
    ("format", format),
    ("dependency arrows", || arrows::check(&metadata::packages()?)),
    ("licences and versions", || licences::check(&metadata::packages()?)),
    ("dashboards", dashboards::check),
    ("code made of the .proto", proto::check),
    ("lints", lints),
    ("documentation", documentation),
];

pub(crate) fn run() -> Result<(), Failed> {
    for (name, part) in PARTS {
        part().map_err(|error| format!("{name}: {error}"))?;
        println!("good: {name}");
    }
    Ok(())
}

fn format() -> Result<(), Failed> {
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))
}

fn lints() -> Result<(), Failed> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--all-features"];
    shell::run(shell::cargo(&arguments).args(["--", "-D", "warnings"]))
}

fn documentation() -> Result<(), Failed> {
    let mut cargo = shell::cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--locked"]);
    shell::run(cargo.arg("--document-private-items").env("RUSTDOCFLAGS", "-D warnings"))
}
