//! `cargo xtask proto`: generates the Rust code of the store's .proto, which is committed.
//!
//! So building the program needs no protobuf compiler. Nor does checking that the code is up to date: checksums of what it was
//! made from and of what was made are committed beside it. `cargo xtask test --full` generates it again.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::{Failure, shell};

#[derive(Args)]
pub(crate) struct ProtoArgs {
    /// Only compare what is generated with the committed files
    #[arg(long)]
    check: bool,
}

/// Writes the committed files.
pub(crate) fn run(args: &ProtoArgs) -> Result<(), Failure> {
    if args.check {
        return check_by_generating();
    }
    let folder = shell::repository().join("crates/kv-proto/src/generated");
    generate(&folder)?;
    let path = shell::repository().join(CHECKSUMS);
    fs::write(&path, checksums()?).map_err(|error| format!("write {}: {error}", path.display()))?;
    println!("written: {}", folder.display());
    Ok(())
}

/// Checks that neither the .proto, nor its generator, nor the generated files changed since they were written.
pub(crate) fn check() -> Result<(), Failure> {
    let (committed, current) = (read(&shell::repository().join(CHECKSUMS))?, checksums()?);
    let changed =
        current.lines().find(|line| committed.lines().all(|committed| committed != *line));
    match changed.and_then(|line| line.split_whitespace().last()) {
        Some(file) => Err(format!("{file} changed since the code was generated; {FIX}")),
        None if committed != current => Err(format!("{CHECKSUMS} lists other files; {FIX}")),
        None => Ok(()),
    }
}

/// Checks that the committed files are what the generator makes of the .proto.
fn check_by_generating() -> Result<(), Failure> {
    let fresh = shell::target().join("xtask/proto");
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh).map_err(|error| format!("create {}: {error}", fresh.display()))?;
    generate(&fresh)?;
    for path in GENERATED.map(Path::new) {
        let name = path.file_name().unwrap_or_default();
        if read(&fresh.join(name))? != read(&shell::repository().join(path))? {
            return Err(format!("{} does not match kv.proto; {FIX}", path.display()));
        }
        println!("good: {}", path.display());
    }
    Ok(())
}

fn generate(to: &Path) -> Result<(), Failure> {
    let mut cargo = shell::cargo(&["run", "--quiet", "--locked", "--manifest-path"]);
    cargo.args(["xtask/proto/Cargo.toml", "--target-dir"]).arg(shell::target().join("proto"));
    cargo.arg("--").arg(shell::repository().join("crates/kv-proto/proto")).arg(to);
    shell::run(&mut cargo)
}

/// As `sha256sum` prints them.
fn checksums() -> Result<String, Failure> {
    let mut sums = Command::new("sha256sum");
    shell::output(sums.args(SOURCES).args(GENERATED).current_dir(shell::repository()))
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))
}

const FIX: &str = "run `cargo xtask proto`";
const CHECKSUMS: &str = "xtask/proto/checksums";
const SOURCES: [&str; 4] = [
    "crates/kv-proto/proto/wirelane/kv/v1/kv.proto",
    "xtask/proto/Cargo.toml",
    "xtask/proto/Cargo.lock",
    "xtask/proto/src/main.rs",
];
const GENERATED: [&str; 2] = [
    "crates/kv-proto/src/generated/descriptors.rs",
    "crates/kv-proto/src/generated/wirelane.kv.v1.rs",
];
