//! Starts units with systemd.

use std::path::Path;
use std::process::{Command, Stdio};

use change::Machine;
use change::install::Part;

use crate::output;
use crate::output::Failure;

/// Fails if units cannot be started, before anything is installed.
pub(super) fn check(machine: &Machine) -> Result<(), Failure> {
    if !machine.is_live() {
        return Err(Failure::usage(
            "install: --start requires the running machine, and cannot be used with --root",
        ));
    }
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(Failure::usage(
            "install: systemd is not running, so that units cannot be started; install the files without --start",
        ));
    }
    Ok(())
}

/// Enables and starts the units of these parts.
pub(super) fn units(parts: &[Part]) -> Result<(), Failure> {
    let units: Vec<&str> = parts.iter().filter_map(|part| part.unit()).collect();
    if units.is_empty() {
        return Ok(());
    }
    systemctl(&["daemon-reload"])?;
    for unit in units {
        systemctl(&["enable", "--now", unit])?;
        output::note(&format!(
            "started {unit}; before `wirelane revert` run: systemctl disable --now {unit}"
        ));
    }
    Ok(())
}

/// systemctl has its own timeout: it fails after 90 seconds if a unit does not start.
fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let command = format!("systemctl {}", arguments.join(" "));
    let status = Command::new("systemctl")
        .args(arguments)
        // Our stdout is for results only.
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Failure::failed(format!("{command}: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{command}: {status}. The files are installed; `wirelane revert --last` removes them"
    )))
}
