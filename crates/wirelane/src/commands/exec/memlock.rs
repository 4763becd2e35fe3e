//! Raises this process's limit on locked memory before the command replaces it.

use doctor::expected::memlock::MemlockState;
use node::Limit;
use rustix::io::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    configure_capability_in_ambient_set, no_new_privs, set_capabilities,
};

use crate::commands::env::Confinement;

/// Raises the limit as far as allowed, and returns the resulting state.
pub(super) fn raise(confinement: Confinement) -> MemlockState {
    let none = CapabilitySet::empty();
    let nothing = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let sets = capabilities(None).unwrap_or(nothing);
    raise_limit(sets.effective);
    let uid = rustix::process::geteuid().as_raw();
    let after = getrlimit(Resource::Memlock);
    MemlockState {
        uid,
        effective: sets.effective.bits(),
        has_ipc_lock: keeps_ipc_lock(uid, sets),
        may_have_ipc_lock: capability_is_in_bounding_set(CapabilitySet::IPC_LOCK).unwrap_or(false),
        no_new_privileges: no_new_privs().unwrap_or(false),
        is_container: confinement.is_container,
        is_initial_user_namespace: confinement.is_host_user_namespace,
        limit: Limit { soft: after.current, hard: after.maximum },
    }
}

/// To unlimited if allowed, else to the hard limit.
fn raise_limit(effective: CapabilitySet) {
    let unlimited = Rlimit { current: None, maximum: None };
    // A container may have the capability and still be refused: it counts only in the host's namespace.
    let is_unlimited = effective.contains(CapabilitySet::SYS_RESOURCE)
        && setrlimit(Resource::Memlock, unlimited).is_ok();
    if !is_unlimited {
        let hard = getrlimit(Resource::Memlock).maximum;
        // This is always allowed; the result is read afterwards.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: hard, maximum: hard });
    }
}

/// Whether the command will have IPC_LOCK. Programs of root have root's capabilities; those of other users only
/// ambient ones, which this program can set if its file has the capability.
fn keeps_ipc_lock(uid: u32, sets: CapabilitySets) -> bool {
    if uid == 0 {
        return sets.effective.contains(CapabilitySet::IPC_LOCK);
    }
    sets.permitted.contains(CapabilitySet::IPC_LOCK) && make_ambient(sets).is_ok()
}

fn make_ambient(mut sets: CapabilitySets) -> Result<()> {
    sets.inheritable |= CapabilitySet::IPC_LOCK;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::IPC_LOCK, true)
}
