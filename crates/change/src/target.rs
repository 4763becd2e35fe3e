//! Things on a machine that can be read, set and reverted.

use std::time::Duration;

use node::{Reading, Tree};
use serde::{Deserialize, Serialize};

use super::ethtool::{self, Coalescing, Rings};
use super::{
    Content, Error, Machine, PackageManager, Reader, State, export, line, mount, netdev, nfsd,
    packages, program, read_request,
};

/// A thing on a machine. A new kind defines here how it is read and set; planning, the journal and
/// reverting follow from these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// A file that is written by us completely.
    File {
        /// Its path.
        path: String,
    },
    /// Files of /sys or /proc with one value each, which are set together.
    Values {
        /// Their paths.
        paths: Vec<String>,
    },
    /// Whether a kernel module is loaded.
    Module {
        /// `ib_uverbs`.
        name: String,
    },
    /// The sizes of a net device's rings, in packets: receive, send.
    Rings {
        /// `eth0`.
        netdev: String,
    },
    /// Interrupt coalescing of a net device: adaptive receive, adaptive send; microseconds of both.
    Coalescing {
        /// `eth0`.
        netdev: String,
    },
    /// The maximum read request size of a PCI function, in bytes.
    ReadRequest {
        /// `0000:3b:00.0`.
        pci: String,
    },
    /// A line of ours in a file of others.
    Line {
        /// The file.
        path: String,
        /// The whole line.
        line: String,
    },
    /// The options of an NFS export.
    Export {
        /// The folder.
        dir: String,
        /// The client.
        client: String,
    },
    /// The kernel's NFS server: whether it runs, whether it listens for RDMA.
    Nfsd {
        /// The port for RDMA.
        port: u16,
        /// Folders exported by us; all others were exported by others.
        dirs: Vec<String>,
    },
    /// An NFS mount.
    Mount {
        /// `10.0.0.1:/data`.
        source: String,
        /// The mount point.
        point: String,
        /// The mount options.
        options: String,
    },
    /// Which packages are installed.
    Packages {
        /// The package manager.
        by: PackageManager,
        /// The requested packages, then their dependencies.
        names: Vec<String>,
        /// Number of requested packages.
        asked: usize,
    },
    /// Whether a net device has an address.
    Address {
        /// `eth0`.
        netdev: String,
        /// `10.0.0.1/24`.
        address: String,
    },
    /// Whether a net device is up.
    Link {
        /// `eth0`.
        netdev: String,
    },
    /// Whether a net device has a VLAN device on it, called `eth0.100`.
    Vlan {
        /// `eth0`.
        netdev: String,
        /// `100`.
        id: u16,
    },
}

/// A target and its wanted state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The target.
    pub target: Target,
    /// Its wanted state.
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

    /// Loads a kernel module.
    pub fn module(name: impl Into<String>) -> Change {
        Change { target: Target::Module { name: name.into() }, wanted: State::all(LOADED, 1) }
    }

    /// A line of ours in a file of others.
    pub fn line(path: impl Into<String>, line: impl Into<String>) -> Change {
        let target = Target::Line { path: path.into(), line: line.into() };
        Change { target, wanted: State::all(line::THERE, 1) }
    }

    /// Exports a folder with these options.
    pub fn export(dir: &str, client: &str, options: &str) -> Change {
        let target = Target::Export { dir: dir.to_owned(), client: client.to_owned() };
        Change { target, wanted: State::all(options, 1) }
    }

    /// Starts the NFS server and its RDMA listener; these folders are exported by us.
    pub fn nfsd(port: u16, dirs: Vec<String>) -> Change {
        Change { target: Target::Nfsd { port, dirs }, wanted: nfsd::wanted() }
    }

    /// Mounts a file system over a transport: `rdma` or `tcp`.
    pub fn mount(source: &str, point: &str, options: &str, transport: &str) -> Change {
        let target = Target::Mount {
            source: source.to_owned(),
            point: point.to_owned(),
            options: options.to_owned(),
        };
        Change { target, wanted: State::all(mount::describe(source, transport), 1) }
    }

    /// Adds an address to a net device: `10.0.0.1/24`.
    pub fn address(netdev: impl Into<String>, address: impl Into<String>) -> Change {
        let target = Target::Address { netdev: netdev.into(), address: address.into() };
        Change { target, wanted: State::all(netdev::THERE, 1) }
    }

    /// Sets a net device up.
    pub fn link_up(netdev: impl Into<String>) -> Change {
        let target = Target::Link { netdev: netdev.into() };
        Change { target, wanted: State::all(netdev::UP, 1) }
    }

    /// Adds a VLAN device to a net device.
    pub fn vlan(netdev: impl Into<String>, id: u16) -> Change {
        let target = Target::Vlan { netdev: netdev.into(), id };
        Change { target, wanted: State::all(netdev::THERE, 1) }
    }
}

impl Target {
    /// Its name in messages.
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
            Target::Line { path, .. } => format!("line of {path}"),
            Target::Export { dir, client } => format!("export of {dir} to {client}"),
            Target::Nfsd { .. } => "NFS server".to_owned(),
            Target::Mount { point, .. } => format!("mount at {point}"),
            Target::Packages { names, asked, .. } => {
                let (asked, dependencies) = names.split_at((*asked).min(names.len()));
                let more = match dependencies.len() {
                    0 => String::new(),
                    1 => " and 1 dependency".to_owned(),
                    many => format!(" and {many} dependencies"),
                };
                format!("packages {}{more}", asked.join(" "))
            }
            Target::Address { netdev, address } => format!("address {address} of {netdev}"),
            Target::Link { netdev } => format!("link {netdev}"),
            Target::Vlan { netdev, id } => format!("net device {netdev}.{id}"),
        }
    }

    /// The names of its parts, in the order of their values; empty for a file.
    pub fn parts(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Target::File { .. } => Vec::new(),
            Target::Values { paths } => paths.clone(),
            Target::Line { line, .. } => vec![line.clone()],
            Target::Nfsd { port, .. } => nfsd::parts(*port),
            Target::Packages { names, .. } => names.clone(),
            Target::Module { .. }
            | Target::ReadRequest { .. }
            | Target::Export { .. }
            | Target::Mount { .. }
            | Target::Address { .. }
            | Target::Link { .. }
            | Target::Vlan { .. } => vec![self.name()],
            Target::Rings { .. } => words(&["rx", "tx"]),
            Target::Coalescing { .. } => {
                words(&["adaptive rx", "adaptive tx", "rx usecs", "tx usecs"])
            }
        }
    }

    /// Whether it keeps its state after a restart of the machine.
    pub fn survives_restart(&self) -> bool {
        matches!(self, Target::File { .. } | Target::Line { .. } | Target::Packages { .. })
    }

    /// Whether only the running machine has it, and no folder or snapshot.
    pub fn needs_running_machine(&self) -> bool {
        match self {
            Target::Module { .. } | Target::Rings { .. } | Target::Coalescing { .. } => true,
            Target::Export { .. } | Target::Nfsd { .. } | Target::Mount { .. } => true,
            Target::File { .. } | Target::Line { .. } => false,
            Target::Values { .. } | Target::ReadRequest { .. } => false,
            Target::Packages { .. } | Target::Address { .. } => true,
            Target::Link { .. } | Target::Vlan { .. } => true,
        }
    }

    /// The missing folders that it needs, the outermost first.
    pub(super) fn missing_folders(&self, machine: &Machine) -> Vec<String> {
        match self {
            Target::File { path } | Target::Line { path, .. } => machine.missing_folders(path),
            // The mount point itself is a folder too.
            Target::Mount { point, .. } => machine.missing_folders(&format!("{point}/")),
            _ => Vec::new(),
        }
    }

    /// Its current state.
    pub(super) fn read(&self, reader: &Reader<'_>) -> Result<State, Error> {
        let tree = &reader.tree;
        match self {
            Target::File { path } => match reader.machine {
                Some(machine) => machine.read_file(path),
                None => read_snapshot_file(tree, path),
            },
            Target::Values { paths } => {
                let values = paths.iter().map(|path| match tree.text(path) {
                    Reading::Absent => Ok(None),
                    seen => value(path, seen).map(Some),
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
            Target::Line { path, line } => line::read(reader, path, line),
            Target::Export { dir, client } => Ok(export::read(tree, dir, client)),
            Target::Nfsd { port, .. } => Ok(nfsd::read(tree, *port)),
            Target::Mount { point, .. } => Ok(mount::read(tree, point)),
            Target::Packages { .. } if !reader.is_live() => {
                Err(Error::failed("packages are known only on a running machine"))
            }
            Target::Packages { by, names, .. } => packages::read(*by, names),
            Target::Address { netdev, address } => netdev::read_address(tree, netdev, address),
            Target::Link { netdev } => Ok(netdev::read_link(tree, netdev)),
            Target::Vlan { netdev, id } => Ok(netdev::read_vlan(tree, netdev, *id)),
        }
    }

    /// Sets its state.
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
                    // A missing file, as of an unplugged CPU, is skipped; the caller reads the state back.
                    let value = value.as_ref().filter(|_| machine.exists(path))?;
                    Some(machine.set_value(path, value))
                });
                // A failure does not stop the others from being set.
                let outcomes: Vec<Result<(), Error>> = set.collect();
                outcomes.into_iter().collect()
            }
            Target::Module { name } if first == Some(LOADED) => program::run("modprobe", &[name]),
            Target::Module { name } => unload(name),
            Target::Rings { netdev } => ethtool::set::<Rings>(netdev, values),
            Target::Coalescing { netdev } => ethtool::set::<Coalescing>(netdev, values),
            Target::ReadRequest { pci } => read_request::set(machine, pci, first),
            Target::Line { path, line } => line::set(machine, path, line, first),
            Target::Export { dir, client } => export::set(dir, client, first),
            Target::Nfsd { port, dirs } => nfsd::set(machine, *port, dirs, values),
            Target::Mount { source, point, options } => mount::set(source, point, options, first),
            Target::Packages { by, names, asked } => packages::set(*by, names, *asked, values),
            Target::Address { netdev, address } => netdev::set_address(netdev, address, first),
            Target::Link { netdev } => netdev::set_link(netdev, first),
            Target::Vlan { netdev, id } => netdev::set_vlan(netdev, *id, first),
        }
    }
}

fn read_snapshot_file(tree: &Tree, path: &str) -> Result<State, Error> {
    let content = match tree.bytes(path) {
        Reading::Absent => return Ok(State::Absent),
        seen => Content::from_bytes(value(path, seen)?),
    };
    let metadata = tree.metadata(path).into_value();
    let mode = metadata.map(|metadata| metadata.mode & 0o7777);
    Ok(State::File { content, mode, owner: metadata.map(|metadata| (metadata.uid, metadata.gid)) })
}

fn value<T>(path: &str, seen: Reading<T>) -> Result<T, Error> {
    let why = seen.why_not().unwrap_or_default();
    seen.into_value()
        .ok_or_else(|| Error::failed(format!("{path} {why}, so it could not be reverted")))
}

/// Loaded, or built into the kernel.
fn is_loaded(tree: &Tree, name: &str) -> bool {
    if tree.exists(&format!("/sys/module/{}", name.replace('-', "_"))) {
        return true;
    }
    let Some(kernel) = tree.text("/proc/sys/kernel/osrelease").into_value() else { return false };
    let built_in = tree.text(&format!("/lib/modules/{kernel}/modules.builtin"));
    let file = format!("/{name}.ko");
    built_in.value().is_some_and(|list| list.lines().any(|line| line.ends_with(&file)))
}

/// Retries: the kernel closes connections that use the module in the background.
fn unload(name: &str) -> Result<(), Error> {
    for _ in 0..UNLOAD_RETRIES {
        if program::run("modprobe", &["-r", name]).is_ok() {
            return Ok(());
        }
        std::thread::sleep(UNLOAD_PAUSE);
    }
    program::run("modprobe", &["-r", name])
}

const UNLOAD_RETRIES: usize = 9;
const UNLOAD_PAUSE: Duration = Duration::from_millis(300);
const LOADED: &str = "loaded";
const NOT_LOADED: &str = "not loaded";
