//! `cargo xtask libraries`: a package of every library, as it would be published.

use std::collections::BTreeSet;
use std::fs;

use clap::Args;

use crate::{Failure, shell};

#[derive(Args)]
pub(crate) struct LibrariesArgs {
    /// Also build each from its package alone, as who depends on it would
    #[arg(long)]
    build: bool,
}

pub(crate) fn run(args: &LibrariesArgs) -> Result<(), Failure> {
    let folder = shell::target().join("package");
    let _ = fs::remove_dir_all(&folder);
    let mut cargo = shell::cargo(&["package", "--quiet", "--workspace", "--allow-dirty"]);
    // The program and these tasks are no libraries.
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
