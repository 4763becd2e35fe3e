//! Taking grants back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::process::Process;
use crate::memory::Memory;
use crate::region::Granter;
use crate::segment::control_block::{ControlBlock, GrantId, PeerControlBlock};

/// What takes grants back: a peer of ours that is in the middle of touching one is waited for.
pub(super) struct Fence {
    pub(super) control_block: Arc<ControlBlock>,
    pub(super) peer: Arc<PeerControlBlock>,
    pub(super) process: Option<Arc<Process>>,
}

impl Fence {
    /// Whether the peer has let go. One that stands still in the middle, stopped or lying, does not in
    /// time; one whose process has ended has.
    fn revoke_grant(&self, grant: GrantId) -> bool {
        self.control_block.revoke(grant);
        match self.peer.touches(grant) {
            true => self.wait_for(self.peer.touching()),
            false => true,
        }
    }

    /// Waits until the peer touches something else, or nothing.
    pub(super) fn wait_for(&self, touched: u64) -> bool {
        let begun = Instant::now();
        while touched != 0 && self.peer.touching() == touched {
            if self.process.as_ref().is_some_and(|process| process.has_ended()) {
                return true;
            }
            if begun.elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

impl Granter for Fence {
    fn revoke(&self, key: u128, memory: &Memory) {
        let Some(grant) = GrantId::of(key) else { return };
        // Caller-owned memory that somebody may still write is nobody's any more. A memfd stays by itself.
        if !self.revoke_grant(grant) && memory.file().is_none() {
            std::mem::forget(memory.clone());
        }
    }
}

/// How long a peer that is in the middle of touching our memory is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
