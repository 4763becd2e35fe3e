//! How much memory a job may lock, told as it is.
//!
//! RDMA locks the memory it registers. Kubernetes sets no limit, so a container has its runtime's (8 MiB); the
//! capability IPC_LOCK lifts it, but reaches root alone, and NCCL falls to TCP in silence. The kernel asks for the
//! capability in the host's own user namespace: root of another (rootless podman, `hostUsers: false`) shows it in
//! vain.

use node::{Limit, Tree};

/// Whether capabilities here are the host's: no user is mapped to another. A tree that does not tell speaks not
/// against it.
pub fn is_hosts_user_namespace(tree: &Tree) -> bool {
    let map = tree.text("/proc/self/uid_map").into_value();
    map.is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// What a process may do about locked memory.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The effective user.
    pub uid: u32,
    /// Its capabilities in force.
    pub effective: u64,
    /// Whether a program started by it will have IPC_LOCK.
    pub keeps_lock: bool,
    /// Whether IPC_LOCK could ever be had.
    pub may_have_lock: bool,
    /// Whether capabilities of files are ignored (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// Whether this is a container.
    pub is_container: bool,
    /// Whether its user namespace is the host's, where alone IPC_LOCK counts.
    pub is_hosts: bool,
    /// The limit, after it was raised as far as it could be.
    pub limit: Limit,
}

impl Standing {
    /// What is wrong and the fix that applies; `None`: any amount can be locked.
    pub fn complaint(&self) -> Option<String> {
        let soft = self.limit.soft.filter(|_| !(self.keeps_lock && self.is_hosts))?;
        Some(format!(
            "a job of user {} may lock {} (memlock, raised as far as it may be; CapEff {:016x}): registering \
             more fails, and NCCL then goes over TCP. {}",
            self.uid,
            size(soft),
            self.effective,
            self.fix()
        ))
    }

    fn fix(&self) -> String {
        if !self.is_container {
            return "Put `* - memlock unlimited` into /etc/security/limits.d/ and log in again; for a service \
                    set LimitMEMLOCK=infinity"
                .to_owned();
        }
        if !self.is_hosts {
            return format!(
                "IPC_LOCK does nothing in a user namespace of its own (/proc/self/uid_map; rootless, or \
                 hostUsers: false): {RUNTIME}; of a rootless container, the limit of the user who starts it, \
                 and `--ulimit memlock=-1:-1`"
            );
        }
        match (self.uid, self.may_have_lock, self.no_new_privileges) {
            (0, false, _) => format!("Add the capability IPC_LOCK to the container, or {RUNTIME}"),
            (0, true, _) => format!("IPC_LOCK was taken from this process; {}", capital(RUNTIME)),
            (_, true, false) => format!(
                "IPC_LOCK reaches root alone: run as root, or give this program the capability in its image \
                 (`setcap cap_ipc_lock=+ep`), which it then hands on, or {RUNTIME}"
            ),
            (_, true, true) => format!(
                "IPC_LOCK reaches root alone, and allowPrivilegeEscalation: false forbids a file's capability: \
                 run as root, or {RUNTIME}"
            ),
            (_, false, _) => capital(RUNTIME),
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

const RUNTIME: &str = "raise the limit of the container runtime (containerd: LimitMEMLOCK=infinity in a drop-in of \
                       its unit; CRI-O: `wirelane k8s machineconfig --memlock`)";

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use serde_json::json;

    fn pod(uid: u32) -> Standing {
        Standing {
            uid,
            effective: 0,
            keeps_lock: false,
            may_have_lock: true,
            no_new_privileges: false,
            is_container: true,
            is_hosts: true,
            limit: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
        }
    }

    #[test]
    fn a_pod_that_is_not_root_hears_that_ipc_lock_does_not_reach_it() {
        let said = pod(1000).complaint().expect("a complaint");
        for word in ["user 1000", "8 MiB", "CapEff 0000000000000000", "setcap", "LimitMEMLOCK"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let bound = Standing { no_new_privileges: true, ..pod(1000) };
        assert!(!bound.complaint().expect("a complaint").contains("setcap"));
    }

    #[test]
    fn root_without_the_capability_hears_to_add_it() {
        let root = Standing { may_have_lock: false, ..pod(0) };
        assert!(root.complaint().expect("a complaint").contains("Add the capability IPC_LOCK"));
    }

    #[test]
    fn root_of_a_user_namespace_hears_that_its_capability_does_not_count() {
        let rootless =
            Standing { effective: u64::MAX, keeps_lock: true, is_hosts: false, ..pod(0) };
        let said = rootless.complaint().expect("a complaint");
        assert!(said.contains("user namespace") && said.contains("--ulimit memlock"), "{said}");
        assert!(!said.contains("Add the capability"), "{said}");
    }

    #[test]
    fn the_map_of_users_tells_whose_capabilities_they_are() {
        let map = |text: &str| trial::tree(json!({ "/proc/self/uid_map": text }));
        assert!(is_hosts_user_namespace(&map("         0          0 4294967295\n")));
        for other in
            ["         0       1000          1\n", "0 0 65536\n", "0 1000 1\n1 100000 65536\n"]
        {
            assert!(!is_hosts_user_namespace(&map(other)), "{other}");
        }
        assert!(is_hosts_user_namespace(&trial::tree(json!({ "/etc/hostname": "a" }))));
    }

    #[test]
    fn who_may_lock_all_hears_nothing() {
        let unlimited = Limit { soft: None, hard: None };
        assert_eq!(Standing { limit: unlimited, ..pod(1000) }.complaint(), None);
        assert_eq!(Standing { keeps_lock: true, ..pod(0) }.complaint(), None);
    }
}
