//! A Python with what tests need from PyPI, in a folder of the user's cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Failed, shell};

/// What an environment will fetch first: nothing once it is there.
pub(crate) fn to_fetch(packages: &[&str]) -> Result<Option<String>, Failed> {
    let there = folder(packages)?.join("ready").exists();
    Ok((!there).then(|| format!("{} from PyPI", packages.join(" and "))))
}

/// An environment with these packages, made once for each list of them.
pub(crate) fn environment(packages: &[&str]) -> Result<PathBuf, Failed> {
    let folder = folder(packages)?;
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(folder);
    }
    println!("fetching {} from PyPI, once", packages.join(" and "));
    shell::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/pip"));
    shell::output(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    fs::write(&ready, b"").map_err(|error| format!("write {}: {error}", ready.display()))?;
    Ok(folder)
}

fn folder(packages: &[&str]) -> Result<PathBuf, Failed> {
    Ok(shell::cache()?.join("python").join(packages.join("-").replace("==", "-")))
}
