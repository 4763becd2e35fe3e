//! `cargo xtask proto`: generates the Rust code of the store's .proto, which is committed.
//!
//! So building the program needs no protobuf compiler; `cargo xtask check` generates it again and compares.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Failure, shell};

/// Writes the committed files.
pub(crate) fn run() -> Result<(), Failure> {
    generate(&committed())?;
    println!("written: {}", committed().display());
    Ok(())
}

/// Checks that the committed files match the .proto.
pub(crate) fn check() -> Result<(), Failure> {
    let fresh = shell::target().join("xtask/proto");
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh).map_err(|error| format!("create {}: {error}", fresh.display()))?;
    generate(&fresh)?;
    for name in GENERATED {
        if read(&fresh.join(name))? != read(&committed().join(name))? {
            let file = committed().join(name);
            return Err(format!(
                "{} does not match kv.proto; run `cargo xtask proto`",
                file.display()
            ));
        }
    }
    Ok(())
}

fn generate(to: &Path) -> Result<(), Failure> {
    let mut cargo = shell::cargo(&["run", "--quiet", "--locked", "--manifest-path"]);
    cargo.args(["xtask/proto/Cargo.toml", "--target-dir"]).arg(shell::target().join("proto"));
    cargo.arg("--").arg(shell::repository().join("crates/kv-proto/proto")).arg(to);
    shell::run(&mut cargo)
}

fn committed() -> PathBuf {
    shell::repository().join("crates/kv-proto/src/generated")
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| format!("read {}: {error}", file.display()))
}

const GENERATED: [&str; 2] = ["wirelane.kv.v1.rs", "descriptors.rs"];
