//! Things on a machine that can be read, set and set back.

use node::{Seen, Tree};
use serde::{Deserialize, Serialize};

use super::ethtool::{self, Coalescing, Rings};
use super::{Content, Error, Look, Machine, State, program, read_request};

/// A thing on a machine. Whoever adds a kind says here how it is read and how it is set: planning, the
/// journal and taking back follow from these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// A file that is ours as a whole.
    File {
        /// Where.
        path: String,
    },
    /// Files of /sys or /proc with one value each, which are set together.
    Values {
        /// Where.
        paths: Vec<String>,
    },
    /// Whether a kernel module is loaded.
    Module {
        /// `ib_uverbs`.
        name: String,
    },
    /// How many packets a net device's rings hold: receive, send.
    Rings {
        /// `eth0`.
        netdev: String,
    },
    /// How a net device holds interrupts back: adaptive when receiving, when sending; microseconds of both.
    Coalescing {
        /// `eth0`.
        netdev: String,
    },
    /// The most that a PCI function asks for in one read, in bytes.
    ReadRequest {
        /// `0000:3b:00.0`.
        pci: String,
    },
}

/// A thing, and what it shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What is changed.
    pub target: Target,
    /// To what.
    pub wanted: State,
}

impl Change {
    /// A file of ours with this text.
    pub fn file(path: impl Into<String>, text: impl Into<String>) -> Change {
        Change { target: Target::File { path: path.into() }, wanted: State::text(text) }
    }

    /// The same value for each of these files of /sys or /proc.
    pub fn values(paths: Vec<String>, value: impl Into<String>) -> Change {
        let wanted = State::all(value, paths.len());
        Change { target: Target::Values { paths }, wanted }
    }

    /// A value for one file of /sys or /proc.
    pub fn value(path: impl Into<String>, value: impl Into<String>) -> Change {
        Change::values(vec![path.into()], value)
    }

    /// A module that is loaded.
    pub fn module(name: impl Into<String>) -> Change {
        Change { target: Target::Module { name: name.into() }, wanted: State::all(LOADED, 1) }
    }
}

impl Target {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Target::File { path } => path.clone(),
            Target::Values { paths } => match paths.as_slice() {
                [path] => path.clone(),
                [first, ..] => format!("{first} and {} more", paths.len() - 1),
                [] => "nothing".to_owned(),
            },
            Target::Module { name } => format!("module {name}"),
            Target::Rings { netdev } => format!("rings of {netdev}"),
            Target::Coalescing { netdev } => format!("interrupt coalescing of {netdev}"),
            Target::ReadRequest { pci } => format!("largest read request of {pci}"),
        }
    }

    /// What its parts are called, in the order of their values; of a whole file there are none.
    pub fn parts(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Target::File { .. } => Vec::new(),
            Target::Values { paths } => paths.clone(),
            Target::Module { .. } | Target::ReadRequest { .. } => vec![self.name()],
            Target::Rings { .. } => words(&["rx", "tx"]),
            Target::Coalescing { .. } => {
                words(&["adaptive rx", "adaptive tx", "rx usecs", "tx usecs"])
            }
        }
    }

    /// Whether it is as it was set after a restart of the machine.
    pub fn survives_restart(&self) -> bool {
        matches!(self, Target::File { .. })
    }

    /// Whether only the running machine has it: no file of a tree stands for it.
    pub fn is_live_only(&self) -> bool {
        matches!(self, Target::Module { .. } | Target::Rings { .. } | Target::Coalescing { .. })
    }

    /// What it is now.
    pub(super) fn read(&self, look: &Look<'_>) -> Result<State, Error> {
        let tree = &look.tree;
        match self {
            Target::File { path } => match look.machine {
                Some(machine) => machine.read_file(path),
                None => read_kept_file(tree, path),
            },
            Target::Values { paths } => {
                let values = paths.iter().map(|path| match tree.text(path) {
                    Seen::Absent => Ok(None),
                    // Some values are columns, which the kernel sets apart by tabs.
                    seen => value(path, seen).map(|text| Some(one_space(&text))),
                });
                Ok(State::Values(values.collect::<Result<_, _>>()?))
            }
            Target::Module { name } => {
                let loaded = if is_loaded(tree, name) { LOADED } else { NOT_LOADED };
                Ok(State::all(loaded, 1))
            }
            Target::Rings { netdev } => ethtool::read::<Rings>(tree, netdev),
            Target::Coalescing { netdev } => ethtool::read::<Coalescing>(tree, netdev),
            Target::ReadRequest { pci } => read_request::read(tree, pci),
        }
    }

    /// Makes it so.
    pub(super) fn set(&self, machine: &Machine, state: &State) -> Result<(), Error> {
        let values = match state {
            State::Values(values) => values.as_slice(),
            State::Absent | State::File { .. } => &[],
        };
        let first = values.first().and_then(Option::as_deref);
        match self {
            Target::File { path } => machine.set_file(path, state),
            Target::Values { paths } => {
                let set = paths.iter().zip(values).filter_map(|(path, value)| {
                    // What is gone, as a processor that was taken out, has nothing to be set; whoever needs it looks.
                    let value = value.as_ref().filter(|_| machine.is_there(path))?;
                    Some(machine.set_value(path, value))
                });
                // One that fails keeps no other from being set.
                let outcomes: Vec<Result<(), Error>> = set.collect();
                outcomes.into_iter().collect()
            }
            Target::Module { name } if first == Some(LOADED) => program::run("modprobe", &[name]),
            Target::Module { name } => program::run("modprobe", &["-r", name]),
            Target::Rings { netdev } => ethtool::set::<Rings>(netdev, values),
            Target::Coalescing { netdev } => ethtool::set::<Coalescing>(netdev, values),
            Target::ReadRequest { pci } => read_request::set(machine, pci, first),
        }
    }
}

fn read_kept_file(tree: &Tree, path: &str) -> Result<State, Error> {
    let content = match tree.bytes(path) {
        Seen::Absent => return Ok(State::Absent),
        seen => Content::of(value(path, seen)?),
    };
    let node = tree.node(path).into_value();
    let mode = node.map(|node| node.mode & 0o7777);
    Ok(State::File { content, mode, owner: node.map(|node| (node.uid, node.gid)) })
}

fn value<T>(path: &str, seen: Seen<T>) -> Result<T, Error> {
    let why = seen.why_not().unwrap_or_default();
    seen.into_value()
        .ok_or_else(|| Error::failed(format!("{path} {why}, so it could not be taken back")))
}

/// Loaded, or part of the kernel itself.
fn is_loaded(tree: &Tree, name: &str) -> bool {
    if tree.exists(&format!("/sys/module/{}", name.replace('-', "_"))) {
        return true;
    }
    let Some(kernel) = tree.text("/proc/sys/kernel/osrelease").into_value() else { return false };
    let built_in = tree.text(&format!("/lib/modules/{kernel}/modules.builtin"));
    let file = format!("/{name}.ko");
    built_in.value().is_some_and(|list| list.lines().any(|line| line.ends_with(&file)))
}

const LOADED: &str = "loaded";
const NOT_LOADED: &str = "not loaded";

fn one_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
