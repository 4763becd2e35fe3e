//! Run `cargo xtask --help`. Everything is in the library: with one, cargo resolves this package as it does the others, and
//! `cargo test --doc` uses what the other tests were built with.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
