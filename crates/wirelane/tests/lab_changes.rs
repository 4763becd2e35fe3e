//! Commands that change a machine, on one that may be changed: what they apply, they revert.
//!
//! Needs the lab. Run with `--test-threads=1`, as `cargo xtask test` does.
#![allow(missing_docs, reason = "a test")]

#[path = "lab/changes.rs"]
mod changes;
#[path = "lab/nfs.rs"]
mod nfs;
#[path = "lab/setup.rs"]
mod setup;

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
