//! `cargo xtask libraries`: packages every library as for publishing.

use std::collections::BTreeSet;
use std::fs;

use clap::Args;

use crate::{Failure, shell};

#[derive(Args)]
pub(crate) struct LibrariesArgs {
    /// Also build each from its package only, as a dependent would
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(args: &LibrariesArgs) -> Result<(), Failure> {
    let folder = shell::target().join("package");
    let _ = fs::remove_dir_all(&folder);
    let mut cargo = shell::cargo(&["package", "--quiet", "--workspace", "--allow-dirty"]);
    // The program and these tasks are not libraries.
    cargo.args(["--exclude", "wirelane", "--exclude", "xtask"]);
    if !args.build {
        cargo.arg("--no-verify");
    }
    shell::output(&mut cargo)?;
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let packages: BTreeSet<String> = names.filter(|name| name.ends_with(".crate")).collect();
    let crates = shell::repository().join("crates");
    let expected =
        fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let expected = expected.count() - 1;
    if packages.len() != expected {
        return Err(format!("{} packages of {expected} libraries: {packages:?}", packages.len()));
    }
    for package in packages {
        println!("good: {package}");
    }
    Ok(())
}
