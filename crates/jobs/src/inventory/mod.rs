//! The hosts of a job, from users and schedulers.
//!
//! [`Inventory`] is the result of every source: [`Inventory::from_list`] parses `gpu[001-032]:8,cpu1`, [`Inventory::from_file`]
//! an MPI host file, [`environment()`] the variables of Slurm, PBS or the MPI operator of Kubernetes. Text and variables are
//! passed in: nothing here reads a file or resolves names. [`Table`] compares the facts of all hosts.

mod allocation;
mod environment;
mod file;
mod list;
mod range;
mod table;

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

pub use allocation::Allocation;
pub use environment::{HostSource, environment};
pub use table::{Cell, Difference, Mark, Row, Table};

/// The hosts of a job, each once, in their order. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The hosts.
    pub hosts: Vec<Host>,
}

/// A host of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its name in messages.
    pub name: String,
    /// The destination for ssh, if it is not the name.
    pub address: Option<String>,
    /// Its address on the fabric, for the job's data.
    pub fabric: Option<IpAddr>,
    /// Number of processes that it may run.
    pub slots: Option<u32>,
    /// Number of GPUs for the job.
    pub gpus: Option<u32>,
}

/// Why hosts cannot be parsed; the text follows the name of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryError(String);

impl Inventory {
    /// Checks that there is at least one host, not too many, each once and with a valid name.
    pub fn new(hosts: Vec<Host>) -> Result<Self, InventoryError> {
        if hosts.is_empty() {
            return Err(InventoryError::new("names no host"));
        }
        within_limit(hosts.len())?;
        let mut seen = std::collections::BTreeSet::new();
        for host in &hosts {
            host.check()?;
            if !seen.insert(&host.name) {
                let name = &host.name;
                return Err(InventoryError::new(format!(
                    "names {name} twice; write {name}:2 for two processes there"
                )));
            }
        }
        Ok(Inventory { hosts })
    }

    /// The same, with the slots of repeated hosts added up: schedulers write one line per process.
    fn with_repeats(hosts: Vec<Host>) -> Result<Self, InventoryError> {
        let mut at = std::collections::BTreeMap::new();
        let mut once: Vec<Host> = Vec::new();
        for host in hosts {
            let first = *at.entry(host.name.clone()).or_insert(once.len());
            match once.get_mut(first) {
                None => once.push(host),
                Some(known) => {
                    let slots = known.slots.unwrap_or(1).saturating_add(host.slots.unwrap_or(1));
                    known.slots = Some(slots);
                }
            }
        }
        Inventory::new(once)
    }

    /// The host with a name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

impl Host {
    /// A host with only a name.
    pub fn named(name: impl Into<String>) -> Self {
        Host { name: name.into(), ..Host::default() }
    }

    /// The destination for ssh.
    pub fn destination(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.name)
    }

    fn check(&self) -> Result<(), InventoryError> {
        for name in [Some(&self.name), self.address.as_ref()].into_iter().flatten() {
            check_name(name)?;
        }
        for (what, count) in [("slots", self.slots), ("GPUs", self.gpus)] {
            if count.is_some_and(|count| count > MAX_SLOTS) || (what, count) == ("slots", Some(0)) {
                let (name, count) = (&self.name, count.unwrap_or(0));
                return Err(InventoryError::new(format!(
                    "gives {name} {count} {what}; a host has 1 to {MAX_SLOTS}"
                )));
            }
        }
        Ok(())
    }
}

impl InventoryError {
    fn new(text: impl Into<String>) -> Self {
        InventoryError(text.into())
    }

    /// The same, with the line of a file.
    pub fn on_line(self, line: usize) -> Self {
        InventoryError(format!("line {line} {}", self.0))
    }
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InventoryError {}

/// Accepts names that are safe for a resolver, ssh and a shell: no options, no special characters.
fn check_name(name: &str) -> Result<(), InventoryError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:/%".contains(&byte);
    let good = !name.is_empty() && !name.starts_with('-') && name.bytes().all(plain);
    if good && name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    Err(InventoryError::new(format!("has {shown:?}, which is not a host name")))
}

fn within_limit(count: usize) -> Result<(), InventoryError> {
    match count > MAX_HOSTS {
        true => Err(InventoryError::new(format!("names more than {MAX_HOSTS} hosts"))),
        false => Ok(()),
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// More than any job has.
const MAX_HOSTS: usize = 4096;
/// More than any machine has CPUs.
const MAX_SLOTS: u32 = 4096;
/// `USER@` and the longest host name.
const MAX_NAME_BYTES: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_once() {
        let twice = Inventory::new(vec![Host::named("a"), Host::named("b"), Host::named("a")]);
        assert_eq!(
            twice.unwrap_err().to_string(),
            "names a twice; write a:2 for two processes there"
        );
        assert_eq!(Inventory::new(Vec::new()).unwrap_err().to_string(), "names no host");
    }

    #[test]
    fn invalid_names_and_numbers_are_refused() {
        for invalid in ["", "-oProxyCommand=x", "a b", "$(x)", "a;b", "a'b", "é", "a\0b"] {
            assert!(Inventory::new(vec![Host::named(invalid)]).is_err(), "{invalid:?}");
        }
        assert!(Inventory::new(vec![Host::named("a".repeat(301))]).is_err());
        let invalid = Host { address: Some("-F/x".to_owned()), ..Host::named("a") };
        assert!(Inventory::new(vec![invalid]).is_err());
        for slots in [0, 4097] {
            let invalid = Host { slots: Some(slots), ..Host::named("a") };
            assert!(Inventory::new(vec![invalid]).is_err(), "{slots}");
        }
        let none = Host { gpus: Some(0), ..Host::named("a") };
        assert!(Inventory::new(vec![none]).is_ok());
    }

    #[test]
    fn the_number_of_hosts_is_limited() {
        let many = (0..=MAX_HOSTS).map(|at| Host::named(format!("n{at}")));
        let wrong = Inventory::new(many.collect()).unwrap_err().to_string();
        assert_eq!(wrong, "names more than 4096 hosts");
    }

    #[test]
    fn ssh_uses_the_address() {
        let host = Host { address: Some("me@10.0.0.1".to_owned()), ..Host::named("a") };
        assert_eq!((host.destination(), Host::named("b").destination()), ("me@10.0.0.1", "b"));
    }
}
