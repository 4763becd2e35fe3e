//! Packages of the system: reads which are installed, installs and removes them.
//!
//! Dependencies are resolved before anything is installed, so that they are in the journal and a revert
//! removes exactly what was installed. No package that others need is removed, and none is replaced by another version,
//! since that could not be reverted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::program::{output, run_within};
use super::{Change, Error, State, Target};

/// The package manager of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageManager {
    /// Debian's family: apt-get over dpkg.
    Apt,
    /// Red Hat's family: dnf over rpm.
    Dnf,
}

impl PackageManager {
    /// The command that installs packages, for people.
    pub fn install(self, names: &[String]) -> String {
        let names = names.join(" ");
        match self {
            PackageManager::Apt => format!("apt-get install {names}"),
            PackageManager::Dnf => format!("dnf install {names}"),
        }
    }

    /// Installs packages and their dependencies, which are known with apt only. An error is a reason
    /// not to install them: an unknown name, or a package that would be replaced or removed.
    pub fn change(self, names: &[String]) -> Result<Change, Error> {
        let mut all = names.to_vec();
        if self == PackageManager::Apt {
            let missing = missing(self, names)?;
            let installed = simulate_install(&missing)?;
            all.extend(installed.into_iter().filter(|name| !names.contains(name)));
        }
        Ok(PackageManager::change_of(self, names, all))
    }

    /// The same for a folder or a snapshot, without the dependencies.
    pub fn change_without_dependencies(self, names: &[String]) -> Change {
        PackageManager::change_of(self, names, names.to_vec())
    }

    fn change_of(self, asked: &[String], names: Vec<String>) -> Change {
        let wanted = State::all(INSTALLED, names.len());
        Change { target: Target::Packages { by: self, asked: asked.len(), names }, wanted }
    }
}

/// Which of them are installed.
pub(super) fn read(by: PackageManager, names: &[String]) -> Result<State, Error> {
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let output = match by {
        PackageManager::Apt => {
            let format = ["-W", "-f", "${Package} ${db:Status-Abbrev}\n"];
            output("dpkg-query", &[&format[..], &words].concat())?
        }
        PackageManager::Dnf => {
            output("rpm", &[&["-q", "--qf", "%{NAME} ii\n"][..], &words].concat())?
        }
    };
    let state = |name: &String| Some(state(&output.stdout, name).to_owned());
    Ok(State::Values(names.iter().map(state).collect()))
}

/// Installs and removes packages. The first `asked` of the names are requested, the others are their dependencies.
pub(super) fn set(
    by: PackageManager,
    names: &[String],
    asked: usize,
    wanted: &[Option<String>],
) -> Result<(), Error> {
    let State::Values(now) = read(by, names)? else { return Ok(()) };
    let other = |value: &str| -> Vec<&str> {
        let parts = names.iter().zip(&now).zip(wanted);
        let other = parts.filter(|((_, now), wanted)| {
            wanted.as_deref() == Some(value) && now.as_deref() != Some(value)
        });
        other.map(|((name, _), _)| name.as_str()).collect()
    };
    let mut missing = other(INSTALLED);
    missing.retain(|name| names.iter().take(asked).any(|known| known == name));
    install(by, &missing)?;
    remove(by, &other(CONFIGURED), "remove")?;
    remove(by, &other(NOT_INSTALLED), "purge")
}

fn install(by: PackageManager, names: &[&str]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let (program, arguments) = match by {
        PackageManager::Apt => ("apt-get", INSTALL_APT),
        PackageManager::Dnf => ("dnf", INSTALL_DNF),
    };
    run_within(TIMEOUT, program, &[arguments, names].concat())
}

fn remove(by: PackageManager, names: &[&str], how: &str) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    if by == PackageManager::Dnf {
        // Not with dnf: rpm removes only these, or fails if others need them.
        return run_within(TIMEOUT, "rpm", &[&["-e"][..], names].concat());
    }
    let output = output("apt-get", &[&["-s", how][..], names].concat())?;
    let simulation = Simulation::parse(&output.stdout);
    let others: Vec<&str> = simulation
        .removed
        .iter()
        .map(String::as_str)
        .filter(|name| !names.contains(name))
        .collect();
    if !output.succeeded || !others.is_empty() {
        return Err(Error::failed(format!(
            "packages {} are not removed, since others need them: {}{}; remove those first",
            names.join(" "),
            others.join(" "),
            output.stderr.trim()
        )));
    }
    run_within(TIMEOUT, "apt-get", &[&["--yes", LOCK[0], LOCK[1], how][..], names].concat())
}

fn missing(by: PackageManager, names: &[String]) -> Result<Vec<String>, Error> {
    let State::Values(now) = read(by, names)? else { return Ok(Vec::new()) };
    let missing = names.iter().zip(now).filter(|(_, now)| now.as_deref() != Some(INSTALLED));
    Ok(missing.map(|(name, _)| name.clone()).collect())
}

/// All packages that would be installed.
fn simulate_install(names: &[String]) -> Result<BTreeSet<String>, Error> {
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let output = output("apt-get", &[&["-s"][..], INSTALL_APT, &words].concat())?;
    if !output.succeeded {
        let why = output.stderr.lines().find(|line| line.starts_with("E:"));
        return Err(Error::refused(format!(
            "apt-get cannot install {}: {}; try `apt-get update`",
            names.join(" "),
            why.unwrap_or(&output.stderr).trim_start_matches("E: ").trim()
        )));
    }
    let simulation = Simulation::parse(&output.stdout);
    let refused = |verb: &str, names: &BTreeSet<String>| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Error::refused(format!(
            "installing would {verb} {}, which could not be reverted",
            names.join(" ")
        ))
    };
    match () {
        () if !simulation.removed.is_empty() => Err(refused("remove", &simulation.removed)),
        () if !simulation.replaced.is_empty() => Err(refused("replace", &simulation.replaced)),
        () => Ok(simulation.installed),
    }
}

/// What `apt-get -s` would do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Simulation {
    installed: BTreeSet<String>,
    /// By another version.
    replaced: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Simulation {
    /// `Inst NAME (VERSION …)`, `Inst NAME [OLD] (VERSION …)`, `Remv NAME [OLD]`, `Purg NAME [OLD]`.
    fn parse(text: &str) -> Simulation {
        let mut simulation = Simulation::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (verb, name, next) = (words.next(), words.next(), words.next());
            let Some(name) = name else { continue };
            let list = match (verb, next) {
                (Some("Inst"), Some(next)) if next.starts_with('[') => &mut simulation.replaced,
                (Some("Inst"), _) => &mut simulation.installed,
                (Some("Remv" | "Purg"), _) => &mut simulation.removed,
                _ => continue,
            };
            list.insert(name.to_owned());
        }
        simulation
    }
}

/// The state of a package in a list of `NAME STATUS` lines, of any architecture.
fn state(list: &str, name: &str) -> &'static str {
    let of_it = |line: &str| {
        let (known, status) = line.split_once(' ')?;
        (known == name).then(|| status.trim().to_owned())
    };
    let statuses: Vec<String> = list.lines().filter_map(of_it).collect();
    let has = |end: &str| statuses.iter().any(|status| status.ends_with(end));
    match () {
        // Wanted or held, and installed: `ii`, `hi`.
        () if has("i") => INSTALLED,
        () if has("c") => CONFIGURED,
        () => NOT_INSTALLED,
    }
}

const INSTALLED: &str = "installed";
/// Removed, with its settings kept: Debian's `rc`.
const CONFIGURED: &str = "settings only";
const NOT_INSTALLED: &str = "not installed";

const LOCK: [&str; 2] = ["-o", "DPkg::Lock::Timeout=60"];
const INSTALL_APT: &[&str] = &["--yes", LOCK[0], LOCK[1], "--no-install-recommends", "install"];
const INSTALL_DNF: &[&str] = &["--assumeyes", "--setopt=install_weak_deps=False", "install"];
/// Downloads may take long.
const TIMEOUT: Duration = Duration::from_secs(1200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_apts_simulation_is_parsed() {
        let text = "NOTE: This is only a simulation!\n\
                    Inst libevent-2.1-7 (2.1.12 Debian:12 [amd64])\n\
                    Inst libc6 [2.36-9] (2.36-10 Debian:12 [amd64]) []\n\
                    Remv mpich [4.0.2-3]\n\
                    Conf libevent-2.1-7 (2.1.12 Debian:12 [amd64])\n";
        let simulation = Simulation::parse(text);
        assert_eq!(simulation.installed, ["libevent-2.1-7".to_owned()].into());
        assert_eq!(simulation.replaced, ["libc6".to_owned()].into());
        assert_eq!(simulation.removed, ["mpich".to_owned()].into());
    }

    #[test]
    fn a_package_is_installed_or_has_only_settings_or_is_not_installed() {
        let list = "rdma-core ii \nopenmpi-bin rc \nlibfoo hi \nhalf iU \n";
        let states = ["rdma-core", "openmpi-bin", "libfoo", "half", "perftest"];
        let states = states.map(|name| state(list, name));
        assert_eq!(states, [INSTALLED, CONFIGURED, INSTALLED, NOT_INSTALLED, NOT_INSTALLED]);
        let rpm = "rdma-core ii\npackage perftest is not installed\n";
        assert_eq!([state(rpm, "rdma-core"), state(rpm, "perftest")], [INSTALLED, NOT_INSTALLED]);
    }
}
