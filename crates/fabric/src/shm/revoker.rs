//! Revoking grants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::process::Process;
use crate::memory::Memory;
use crate::region::RevokeHook;
use crate::segment::control_block::{ControlBlock, GrantId, PeerControlBlock};

/// Revokes grants, and waits until the peer has ended its accesses.
pub(super) struct Revoker {
    pub(super) control_block: Arc<ControlBlock>,
    pub(super) peer: Arc<PeerControlBlock>,
    pub(super) process: Option<Arc<Process>>,
}

impl Revoker {
    /// Returns whether the peer has ended its access. `false` if it is stopped in the middle of one, or misbehaves;
    /// `true` if its process has ended.
    fn revoke_grant(&self, grant: GrantId) -> bool {
        self.control_block.revoke(grant);
        match self.peer.is_accessing(grant) {
            true => self.wait_for(self.peer.accessing()),
            false => true,
        }
    }

    /// Waits until the peer does not access this grant any more; `false` after a timeout.
    pub(super) fn wait_for(&self, accessed: u64) -> bool {
        let started = Instant::now();
        while accessed != 0 && self.peer.accessing() == accessed {
            if self.process.as_ref().is_some_and(|process| process.has_ended()) {
                return true;
            }
            if started.elapsed() > ACCESS_TIMEOUT {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

impl RevokeHook for Revoker {
    fn revoke(&self, key: u128, memory: &Memory) {
        let Some(grant) = GrantId::of(key) else { return };
        // Private memory that the peer may still write is leaked. A memfd is kept by the peer's mapping.
        if !self.revoke_grant(grant) && memory.file().is_none() {
            std::mem::forget(memory.clone());
        }
    }
}

/// How long to wait for the end of the peer's access.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(1);
