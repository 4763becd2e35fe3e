//! Packages from npm, kept in the user's cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, shell};

/// A folder with only these packages for one `task`, created once.
pub(crate) fn folder(task: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = path(task, packages)?;
    if is_installed(task, packages)? {
        return Ok(folder);
    }
    eprintln!("fetching {} from npm, once", packages.join(" and "));
    fs::create_dir_all(&folder).map_err(|error| format!("create {}: {error}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix"]);
    shell::output(npm.arg(&folder).args(packages))?;
    let ready = folder.join("ready");
    fs::write(&ready, b"").map_err(|error| format!("write {}: {error}", ready.display()))?;
    Ok(folder)
}

pub(crate) fn is_installed(task: &str, packages: &[&str]) -> Result<bool, Failure> {
    Ok(path(task, packages)?.join("ready").exists())
}

fn path(task: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let name = packages.join("-").replace(['@', '/'], "-");
    Ok(shell::cache()?.join(task).join(name.trim_start_matches('-')))
}
