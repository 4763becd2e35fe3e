//! Shared memory between processes of one host. Writes, reads and atomics of a peer's memory are plain
//! loads and stores to its mapped pages; messages and immediate data are sent through a ring by the `stream_engine`.
//!
//! Access is granted by passing a descriptor: a region is a memfd that is sealed against shrinking, and read-only if
//! peers may only read. All state is in descriptors, so a crash leaves nothing behind. Each end
//! writes only its own control block (`segment/control_block.rs`), which the other maps read-only.

mod connect;
mod direct;
mod lane;
mod offer;
mod peer_socket;
mod process;
mod revoker;
mod ring;
mod share;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::error::Error;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::setup::{Fabric, Side, UnconnectedLane, register_software};

pub(crate) use offer::boot_id;

/// Creates lanes to other processes of this host.
#[derive(Debug, Clone, Default)]
pub struct Shm {
    config: Config,
}

/// Settings of shared-memory lanes.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long an operation may wait for one of the peer's receives before the lane fails.
    pub receive_timeout: Duration,
    /// Whether the peer may run as another user. Otherwise it must run as ours or as root. Both ends check:
    /// root needs this to connect to other users.
    pub any_user: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { receive_timeout: Duration::from_secs(2), any_user: false }
    }
}

impl Shm {
    /// Shared memory as configured.
    pub fn new(config: Config) -> Self {
        Shm { config }
    }
}

impl Fabric for Shm {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Ok(register_software(memory, rights))
    }

    fn prepare_lane(&self, side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        Ok(Box::new(connect::UnconnectedShmLane::new(&self.config, side)?))
    }
}

/// An offer is refused, or encoded again to the same bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use peer_socket::fuzz as fuzz_peer_socket;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use ring::fuzz as fuzz_ring;
