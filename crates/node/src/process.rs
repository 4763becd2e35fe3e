//! What this process may do.

use serde::Serialize;

use crate::Seen;

/// This process: who it is, and its limits. Of another machine's tree, the process that took the snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// The effective user.
    pub uid: Option<u32>,
    /// The effective group, and the others.
    pub groups: Vec<u32>,
    /// What it may do beyond its user's rights.
    pub capabilities: Option<Capabilities>,
    /// How much memory it may lock.
    pub memlock: Option<Limit>,
    /// How many files it may have open.
    pub open_files: Option<Limit>,
    /// The memory that its cgroup may use, if there is a limit.
    pub cgroup_memory_bytes: Option<u64>,
    /// RDMA resources that its cgroup may use, as the kernel writes them (`rdma.max`).
    pub cgroup_rdma: Seen<String>,
    /// The name of its network namespace, as /proc/self/ns/net links to it.
    pub network_namespace: Option<String>,
}

/// Capabilities, as /proc/self/status has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// In force.
    pub effective: u64,
    /// Could be taken.
    pub permitted: u64,
    /// Could ever be had.
    pub bounding: u64,
    /// Given to programs that are started.
    pub ambient: u64,
}

/// A limit, soft and hard; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// In force.
    pub soft: Option<u64>,
    /// As far as the process may raise it.
    pub hard: Option<u64>,
}

impl Capabilities {
    /// Whether memory may be locked beyond the limit.
    pub fn can_lock(self) -> bool {
        self.effective >> IPC_LOCK & 1 == 1
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
pub(crate) fn read(_tree: &crate::Tree) -> Process {
    Process {
        uid: None,
        groups: Vec::new(),
        capabilities: None,
        memlock: None,
        open_files: None,
        cgroup_memory_bytes: None,
        cgroup_rdma: Seen::Absent,
        network_namespace: None,
    }
}
