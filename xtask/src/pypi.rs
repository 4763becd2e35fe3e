//! Programs from PyPI, kept in the user's cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, shell};

/// A Python environment with only these packages for one `task`, created once.
pub(crate) fn environment(task: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = folder(task, packages)?;
    if is_installed(task, packages)? {
        return Ok(folder);
    }
    eprintln!("fetching {} from PyPI, once", packages.join(" and "));
    shell::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    shell::output(&mut pip)?;
    let ready = folder.join("ready");
    fs::write(&ready, b"").map_err(|error| format!("write {}: {error}", ready.display()))?;
    Ok(folder)
}

pub(crate) fn is_installed(task: &str, packages: &[&str]) -> Result<bool, Failure> {
    Ok(folder(task, packages)?.join("ready").exists())
}

fn folder(task: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    Ok(shell::cache()?.join(task).join(packages.join("-").replace("==", "-")))
}
