//! Shared memory between processes of one host. Writes, reads and atomics of a peer's memory are plain
//! loads and stores into its pages; messages and immediate data go through a ring, by the `engine`.
//!
//! The mapping is the right: a region is granted as a memfd that nobody can shorten, read-only where
//! peers may only read. Everything lives in descriptors, so a crash leaves nothing behind. Each end
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
use crate::setup::{Fabric, Half, Side, register_software};

pub(crate) use offer::boot_id;

/// Makes lanes to other processes of this host.
#[derive(Debug, Clone, Default)]
pub struct Shm {
    config: Config,
}

/// How shared-memory lanes are made.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long an operation may wait for a receive of the peer's before the lane counts as dead.
    pub patience: Duration,
    /// Whether the peer may be of another user. Otherwise it must be of ours, or root; and both ends look:
    /// root itself needs this to talk to others.
    pub any_user: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { patience: Duration::from_secs(2), any_user: false }
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

    fn half(&self, side: Side) -> Result<Box<dyn Half>, Error> {
        Ok(Box::new(connect::ShmHalf::new(&self.config, side)?))
    }
}

/// What a peer offers: well formed and the same again as bytes, or refused.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use peer_socket::fuzz as fuzz_courier;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use ring::fuzz as fuzz_ring;
