//! The limit on locked memory (memlock).
//!
//! RDMA locks the memory it registers. Kubernetes sets no limit, so a container has its runtime's (8 MiB). The capability
//! IPC_LOCK lifts the limit, but in a container it is effective only for root, and the kernel requires it in the initial
//! user namespace: in another one (rootless podman, `hostUsers: false`) it has no effect.

use node::{Limit, Node};

/// What determines how much memory a process may lock.
#[derive(Debug, Clone)]
pub struct MemlockState {
    /// The effective user.
    pub uid: u32,
    /// Its effective capabilities.
    pub effective: u64,
    /// Whether IPC_LOCK is effective, for the process or the program that it starts.
    pub has_ipc_lock: bool,
    /// Whether IPC_LOCK is in the bounding set.
    pub may_have_ipc_lock: bool,
    /// Whether capabilities of files are ignored (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// Whether this is a container.
    pub is_container: bool,
    /// Whether its user namespace is the initial one: only there IPC_LOCK has an effect.
    pub is_initial_user_namespace: bool,
    /// The limit.
    pub limit: Limit,
}

impl MemlockState {
    /// The state of the process that read the node; `None` if its user or limit is not known.
    pub fn new(node: &Node) -> Option<MemlockState> {
        let process = &node.process;
        let held = process.capabilities;
        Some(MemlockState {
            uid: process.uid?,
            effective: held.map_or(0, |held| held.effective),
            has_ipc_lock: process.can_lock(),
            may_have_ipc_lock: held.is_some_and(|held| held.could_lock()),
            no_new_privileges: false,
            is_container: node.host.container.is_some(),
            is_initial_user_namespace: process.initial_user_namespace != Some(false),
            limit: process.memlock?,
        })
    }

    /// The bytes that may be locked; `None`: unlimited.
    pub fn bytes(&self) -> Option<u64> {
        self.limit.soft.filter(|_| !(self.has_ipc_lock && self.is_initial_user_namespace))
    }

    /// The warning for a job whose limit was raised as far as possible; `None`: unlimited.
    pub fn warning(&self) -> Option<String> {
        let bytes = self.bytes()?;
        Some(format!(
            "a job of user {} can lock {} of memory (CapEff {:016x}): registering more fails, and NCCL falls back to \
             TCP. {}",
            self.uid,
            size(bytes),
            self.effective,
            self.fixes().join(" ")
        ))
    }

    /// Fixes for this process, the best first.
    pub fn fixes(&self) -> Vec<&'static str> {
        if !self.is_initial_user_namespace {
            return [&[USER_NAMESPACE][..], &RUNTIME_FIXES, &HOST_FIXES].concat();
        }
        if !self.is_container {
            return HOST_FIXES.to_vec();
        }
        let capability = match (self.uid, self.may_have_ipc_lock, self.no_new_privileges) {
            (0, false, _) => {
                "Add `capabilities: {add: [IPC_LOCK]}` to the container's securityContext."
            }
            (0, true, _) => "IPC_LOCK was dropped by this process: raise the runtime's limit.",
            (_, true, false) => {
                "The container has IPC_LOCK, but it is effective only for root: run as user 0, or give the program the \
                 file capability: `setcap cap_ipc_lock=+ep PROGRAM`."
            }
            (_, true, true) => {
                "IPC_LOCK is effective only for root, and `allowPrivilegeEscalation: false` disables file \
                 capabilities: run as user 0."
            }
            (_, false, _) => {
                "IPC_LOCK alone has no effect for users other than root: raise the runtime's limit."
            }
        };
        [&[capability][..], &RUNTIME_FIXES].concat()
    }
}

/// Formats a number of bytes: `8 MiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Below this limit most programs cannot start.
pub const MIN_BYTES: u64 = 1 << 30;

/// Lines of a file in /etc/security/limits.d that lift the limit of users who log in.
pub const LIMITS_LINES: [&str; 2] = ["* - memlock unlimited", "root - memlock unlimited"];

/// Lines of a file in /etc/systemd/system.conf.d that lift the limit of services.
pub const SYSTEMD_LINES: [&str; 2] = ["[Manager]", "DefaultLimitMEMLOCK=infinity"];

/// A file in /etc/crio/crio.conf.d that lifts the limit of containers.
pub const CRIO_FILE: &str = "[crio.runtime]\ndefault_ulimits = [\"memlock=-1:-1\"]\n";

/// Fixes for containers, by their runtime.
pub const RUNTIME_FIXES: [&str; 2] = [
    "containerd: a drop-in with `[Service]`, `LimitMEMLOCK=infinity` for containerd.service, then restart it.",
    "CRI-O: `[crio.runtime]`, `default_ulimits = [\"memlock=-1:-1\"]` in /etc/crio/crio.conf.d/ (OpenShift: `wirelane \
     k8s machineconfig --memlock`).",
];

const HOST_FIXES: [&str; 2] = [
    "printf '* - memlock unlimited\\nroot - memlock unlimited\\n' > /etc/security/limits.d/90-rdma.conf, then log in \
     again.",
    "Services of systemd: `LimitMEMLOCK=infinity` in the unit.",
];

const USER_NAMESPACE: &str = "IPC_LOCK has no effect in a user namespace (rootless, or `hostUsers: false`): raise the \
                              limit of the user who starts the container, and start it with `--ulimit \
                              memlock=-1:-1`.";

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: u32) -> MemlockState {
        MemlockState {
            uid,
            effective: 0,
            has_ipc_lock: false,
            may_have_ipc_lock: true,
            no_new_privileges: false,
            is_container: true,
            is_initial_user_namespace: true,
            limit: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
        }
    }

    #[test]
    fn a_pod_without_root_is_warned_that_ipc_lock_is_not_effective() {
        let warning = pod(1000).warning().expect("a warning");
        for word in ["user 1000", "8 MiB", "CapEff 0000000000000000", "setcap", "LimitMEMLOCK"] {
            assert!(warning.contains(word), "{word}: {warning}");
        }
        let bound = MemlockState { no_new_privileges: true, ..pod(1000) };
        assert!(!bound.warning().expect("a warning").contains("setcap"));
    }

    #[test]
    fn root_without_the_capability_should_add_it() {
        let root = MemlockState { may_have_ipc_lock: false, ..pod(0) };
        assert!(root.warning().expect("a warning").contains("{add: [IPC_LOCK]}"));
    }

    #[test]
    fn root_of_a_user_namespace_is_warned_that_ipc_lock_has_no_effect() {
        let rootless = MemlockState {
            effective: u64::MAX,
            has_ipc_lock: true,
            is_initial_user_namespace: false,
            ..pod(0)
        };
        let warning = rootless.warning().expect("a warning");
        for word in ["user namespace", "--ulimit memlock"] {
            assert!(warning.contains(word), "{word}: {warning}");
        }
        assert!(!warning.contains("{add: [IPC_LOCK]}"), "{warning}");
    }

    #[test]
    fn a_job_without_limit_has_no_warning() {
        let unlimited = Limit { soft: None, hard: None };
        assert_eq!(MemlockState { limit: unlimited, ..pod(1000) }.warning(), None);
        assert_eq!(MemlockState { has_ipc_lock: true, ..pod(0) }.warning(), None);
    }
}
