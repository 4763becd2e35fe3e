//! Has systemd start units, where it runs.

use std::path::Path;
use std::process::{Command, Stdio};

use change::Machine;
use change::install::Part;

use crate::output;
use crate::output::Failure;

/// Whether units can be started at all: said before anything is placed.
pub(super) fn check(machine: &Machine) -> Result<(), Failure> {
    if !machine.is_live() {
        return Err(Failure::usage(
            "install: --start is for the running machine, not for a folder",
        ));
    }
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(Failure::usage(
            "install: systemd does not run here, so nothing can be started; without --start files are placed",
        ));
    }
    Ok(())
}

/// Starts the units of these parts, now and with the machine.
pub(super) fn units(parts: &[Part]) -> Result<(), Failure> {
    let units: Vec<&str> = parts.iter().filter_map(|part| part.unit()).collect();
    if units.is_empty() {
        return Ok(());
    }
    systemctl(&["daemon-reload"])?;
    for unit in units {
        systemctl(&["enable", "--now", unit])?;
        output::note(&format!(
            "{unit} runs; before `wirelane revert` say: systemctl disable --now {unit}"
        ));
    }
    Ok(())
}

/// It has limits of its own: a unit that does not start is a failure after 90 seconds.
fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let shown = format!("systemctl {}", words.join(" "));
    let status = Command::new("systemctl")
        .args(words)
        // Ours carries answers alone.
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{shown}: {status}. The files are placed; `wirelane revert --last` removes them"
    )))
}
