//! The user, capabilities and limits of this process.

use serde::Serialize;

use crate::{Reading, Tree};

/// This process; in a snapshot, the process that took it.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// The effective user.
    pub uid: Option<u32>,
    /// The effective group, and the others.
    pub groups: Vec<u32>,
    /// Its capabilities.
    pub capabilities: Option<Capabilities>,
    /// Whether it is in the initial user namespace; in others its capabilities have no effect on
    /// limits. `None`: not known.
    pub initial_user_namespace: Option<bool>,
    /// The limit on locked memory.
    pub memlock: Option<Limit>,
    /// The limit on open files.
    pub open_files: Option<Limit>,
    /// The memory limit of its cgroup, if there is one.
    pub cgroup_memory_bytes: Option<u64>,
    /// The RDMA limits of its cgroup, as the kernel writes them (`rdma.max`).
    pub cgroup_rdma: Reading<String>,
    /// The name of its network namespace, as /proc/self/ns/net links to it.
    pub network_namespace: Option<String>,
}

/// Capabilities, as in /proc/self/status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Effective.
    pub effective: u64,
    /// Permitted.
    pub permitted: u64,
    /// The bounding set.
    pub bounding: u64,
    /// Inherited by programs that are started.
    pub ambient: u64,
}

/// A limit, soft and hard; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The effective limit.
    pub soft: Option<u64>,
    /// The limit up to which the process may raise it.
    pub hard: Option<u64>,
}

impl Process {
    /// Whether memory may be locked beyond the limit.
    pub fn can_lock(&self) -> bool {
        self.is_initial_namespace() && self.capabilities.is_some_and(Capabilities::can_lock)
    }

    /// Whether hard limits may be raised.
    pub fn can_raise_limits(&self) -> bool {
        self.is_initial_namespace() && self.capabilities.is_some_and(Capabilities::can_raise_limits)
    }

    /// Whether its capabilities have an effect on limits.
    fn is_initial_namespace(&self) -> bool {
        self.initial_user_namespace != Some(false)
    }
}

impl Capabilities {
    /// Whether memory may be locked beyond the limit.
    pub fn can_lock(self) -> bool {
        self.effective >> IPC_LOCK & 1 == 1
    }

    /// Whether a program of this process could get the capability to lock memory beyond the limit.
    pub fn could_lock(self) -> bool {
        self.bounding >> IPC_LOCK & 1 == 1
    }

    /// Whether hard limits may be raised.
    pub fn can_raise_limits(self) -> bool {
        self.effective >> SYS_RESOURCE & 1 == 1
    }
}

/// CAP_IPC_LOCK.
pub(crate) const IPC_LOCK: u32 = 14;
/// CAP_SYS_RESOURCE.
pub(crate) const SYS_RESOURCE: u32 = 24;

/// This process.
pub(crate) fn read(tree: &Tree) -> Process {
    let status = tree.text("/proc/self/status").into_value().unwrap_or_default();
    let limits = tree.text("/proc/self/limits").into_value().unwrap_or_default();
    let cgroup = Cgroup::read(tree);
    Process {
        uid: field(&status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()),
        groups: groups(&status),
        capabilities: capabilities(&status),
        initial_user_namespace: tree
            .text("/proc/self/uid_map")
            .into_value()
            .map(|map| is_identity_map(&map)),
        memlock: limit(&limits, "Max locked memory"),
        open_files: limit(&limits, "Max open files"),
        cgroup_memory_bytes: cgroup.memory(tree),
        cgroup_rdma: cgroup.rdma(tree),
        network_namespace: tree.link_name("/proc/self/ns/net").into_value(),
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether a UID map is `0 0 4294967295`: all users map to themselves.
fn is_identity_map(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The effective group first, then the others, without duplicates.
fn groups(status: &str) -> Vec<u32> {
    let own = field(status, "Gid:").and_then(|ids| ids.split_whitespace().nth(1));
    let others = field(status, "Groups:").unwrap_or_default().split_whitespace();
    let mut groups = Vec::new();
    for group in own.into_iter().chain(others).filter_map(|group| group.parse().ok()) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn capabilities(status: &str) -> Option<Capabilities> {
    let set = |name| u64::from_str_radix(field(status, name)?, 16).ok();
    Some(Capabilities {
        effective: set("CapEff:")?,
        permitted: set("CapPrm:")?,
        bounding: set("CapBnd:")?,
        // Kernels before 4.3 have none.
        ambient: set("CapAmb:").unwrap_or(0),
    })
}

/// A line such as `Max locked memory  8388608  unlimited  bytes`.
fn limit(limits: &str, name: &str) -> Option<Limit> {
    let mut words = field(limits, name)?.split_whitespace();
    let mut bound = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Limit { soft: bound()?, hard: bound()? })
}

/// The folders with this process's limits, for both cgroup versions.
struct Cgroup {
    /// Folders with the files of version 2, the innermost first.
    unified: Vec<String>,
    /// The folders of version 1's controllers.
    memory: Vec<String>,
    rdma: Vec<String>,
}

impl Cgroup {
    fn read(tree: &Tree) -> Self {
        let text = tree.text("/proc/self/cgroup").into_value().unwrap_or_default();
        let path = |wanted: &str| {
            text.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == wanted).then_some(path)
            })
        };
        let folders = |mount: &str, path: Option<&str>| match path {
            Some(path) => upwards(&format!("/sys/fs/cgroup{mount}"), path),
            None => Vec::new(),
        };
        Cgroup {
            unified: folders("", path("")),
            memory: folders("/memory", path("memory")),
            rdma: folders("/rdma", path("rdma")),
        }
    }

    /// The lowest limit of the cgroup and those above it.
    fn memory(&self, tree: &Tree) -> Option<u64> {
        let unified = self.unified.iter().map(|folder| format!("{folder}/memory.max"));
        let first = self.memory.iter().map(|folder| format!("{folder}/memory.limit_in_bytes"));
        let limits = unified.chain(first).filter_map(|file| tree.number(&file).into_value());
        // Version 1 writes "no limit" as a number near the maximum.
        limits.filter(|limit: &u64| *limit < 1 << 62).min()
    }

    /// The limits of the innermost cgroup that has them.
    fn rdma(&self, tree: &Tree) -> Reading<String> {
        let folders = self.unified.iter().chain(&self.rdma);
        let mut texts = folders.map(|folder| tree.text(&format!("{folder}/rdma.max")));
        texts.find(|text| !text.is_absent()).unwrap_or(Reading::Absent)
    }
}

/// A cgroup's folder and those above it. In a container its own cgroup is the root, whatever its path is.
fn upwards(mount: &str, path: &str) -> Vec<String> {
    let names: Vec<&str> =
        path.split('/').filter(|name| !name.is_empty() && *name != "..").take(MAX_DEPTH).collect();
    let folder = |depth: usize| match depth {
        0 => mount.to_owned(),
        _ => format!("{mount}/{}", names[..depth].join("/")),
    };
    (0..=names.len()).rev().map(folder).collect()
}

/// Deeper cgroups are ignored.
const MAX_DEPTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_capabilities_are_parsed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max locked memory         8388608              unlimited            bytes\n";
        let memlock = Limit { soft: Some(8_388_608), hard: None };
        assert_eq!(limit(limits, "Max locked memory"), Some(memlock));
        assert_eq!(limit(limits, "Max open files"), None);
        let status = "Uid:\t0\t1000\t0\t0\nGid:\t5\t6\t5\t5\nGroups:\t6 100 \n\
                      CapPrm:\t0000000001004000\nCapEff:\t0000000000004000\nCapBnd:\t000001ffffffffff\n";
        let capabilities = capabilities(status).expect("sets");
        assert!(capabilities.can_lock() && !capabilities.can_raise_limits());
        assert_eq!(groups(status), [6, 100]);
    }

    #[test]
    fn the_initial_user_namespace_has_an_identity_map() {
        assert!(is_identity_map("         0          0 4294967295"));
        assert!(!is_identity_map("0 1000 1"));
        assert!(!is_identity_map("0 1000 1\n1 100000 65536"));
    }

    #[test]
    fn a_cgroup_is_read_with_those_above_it() {
        let folders = upwards("/sys/fs/cgroup", "/kubepods.slice/pod1");
        let expected = ["/kubepods.slice/pod1", "/kubepods.slice", ""];
        assert_eq!(folders, expected.map(|path| format!("/sys/fs/cgroup{path}")));
        assert_eq!(upwards("/sys/fs/cgroup", "/"), ["/sys/fs/cgroup"]);
    }
}
