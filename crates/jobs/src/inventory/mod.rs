//! The hosts of a job, as people and schedulers name them.
//!
//! [`Inventory`] is the result of every source: [`Inventory::from_list`] reads `gpu[001-032]:8,cpu1`, [`Inventory::from_file`]
//! an MPI host file, [`environment()`] what Slurm, PBS or the MPI operator of Kubernetes say. Text and variables are
//! handed in: nothing here reads a file or asks a resolver. [`Table`] puts what was found on each host beside the others'.

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
pub use environment::{Found, environment};
pub use table::{Cell, Difference, Mark, Row, Table};

/// The hosts of a job, each once, in the order in which they were named. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The hosts.
    pub hosts: Vec<Host>,
}

/// A host of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    /// What it is called in what people read.
    pub name: String,
    /// What ssh is given, where it is not the name.
    pub address: Option<String>,
    /// Its address on the fabric, where the job's data should go.
    pub fabric: Option<IpAddr>,
    /// How many processes it may have.
    pub slots: Option<u32>,
    /// How many GPUs the job has there.
    pub gpus: Option<u32>,
}

/// Why a text names no hosts, in words that follow the name of what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong(String);

impl Inventory {
    /// Hosts that a job can have: at least one, not too many, each once and by a name.
    pub fn new(hosts: Vec<Host>) -> Result<Self, Wrong> {
        if hosts.is_empty() {
            return Err(Wrong::new("names no host"));
        }
        within_limit(hosts.len())?;
        let mut seen = std::collections::BTreeSet::new();
        for host in &hosts {
            host.check()?;
            if !seen.insert(&host.name) {
                let name = &host.name;
                return Err(Wrong::new(format!(
                    "names {name} twice; write {name}:2 for two processes there"
                )));
            }
        }
        Ok(Inventory { hosts })
    }

    /// Hosts of which some are named more than once, as schedulers write one line a process: their slots add up.
    fn with_repeated(hosts: Vec<Host>) -> Result<Self, Wrong> {
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

    /// The host of a name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }
}

impl Host {
    /// A host of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Host { name: name.into(), ..Host::default() }
    }

    /// What ssh is given.
    pub fn destination(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.name)
    }

    fn check(&self) -> Result<(), Wrong> {
        for name in [Some(&self.name), self.address.as_ref()].into_iter().flatten() {
            check_name(name)?;
        }
        for (what, count) in [("slots", self.slots), ("GPUs", self.gpus)] {
            if count.is_some_and(|count| count > MAX_SLOTS) || (what, count) == ("slots", Some(0)) {
                let (name, count) = (&self.name, count.unwrap_or(0));
                return Err(Wrong::new(format!(
                    "gives {name} {count} {what}; a host has 1 to {MAX_SLOTS}"
                )));
            }
        }
        Ok(())
    }
}

impl Wrong {
    fn new(text: impl Into<String>) -> Self {
        Wrong(text.into())
    }

    /// The same of a line of a file.
    pub fn on_line(self, line: usize) -> Self {
        Wrong(format!("line {line} {}", self.0))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// What a resolver, ssh and a shell all read as one name: nothing that is an option, and nothing odd.
fn check_name(name: &str) -> Result<(), Wrong> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:/%".contains(&byte);
    let good = !name.is_empty() && !name.starts_with('-') && name.bytes().all(plain);
    if good && name.len() <= LONGEST_NAME {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    Err(Wrong::new(format!("has {shown:?}, which is no host's name")))
}

fn within_limit(count: usize) -> Result<(), Wrong> {
    match count > MAX_HOSTS {
        true => Err(Wrong::new(format!("names more than {MAX_HOSTS} hosts"))),
        false => Ok(()),
    }
}

fn number(text: &str) -> Option<u32> {
    // Rust's own would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// More hosts than a job of ours has.
const MAX_HOSTS: usize = 4096;
/// More than any machine has CPUs.
const MAX_SLOTS: u32 = 4096;
/// `USER@` and what a resolver takes.
const LONGEST_NAME: usize = 300;

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
    fn odd_names_and_numbers_are_refused() {
        for odd in ["", "-oProxyCommand=x", "a b", "$(x)", "a;b", "a'b", "é", "a\0b"] {
            assert!(Inventory::new(vec![Host::named(odd)]).is_err(), "{odd:?}");
        }
        assert!(Inventory::new(vec![Host::named("a".repeat(301))]).is_err());
        let odd = Host { address: Some("-F/x".to_owned()), ..Host::named("a") };
        assert!(Inventory::new(vec![odd]).is_err());
        for slots in [0, 4097] {
            let odd = Host { slots: Some(slots), ..Host::named("a") };
            assert!(Inventory::new(vec![odd]).is_err(), "{slots}");
        }
        let none = Host { gpus: Some(0), ..Host::named("a") };
        assert!(Inventory::new(vec![none]).is_ok());
    }

    #[test]
    fn there_is_an_end_to_hosts() {
        let many = (0..=MAX_HOSTS).map(|at| Host::named(format!("n{at}")));
        let wrong = Inventory::new(many.collect()).unwrap_err().to_string();
        assert_eq!(wrong, "names more than 4096 hosts");
    }

    #[test]
    fn ssh_is_given_the_address() {
        let host = Host { address: Some("me@10.0.0.1".to_owned()), ..Host::named("a") };
        assert_eq!((host.destination(), Host::named("b").destination()), ("me@10.0.0.1", "b"));
    }
}
