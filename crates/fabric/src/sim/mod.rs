//! A simulated lane, for tests of everything above lanes: virtual time, and faults at any moment.
//!
//! It touches no device and no clock. A [`World`] holds the time, which moves only when
//! [`World::advance`] or [`World::step`] moves it, and **rails**: wires that can be slow, lossy, dead or
//! revived. [`World::fabric`] gives a host's end of a rail, and from there all is as with any other
//! [`Fabric`](crate::Fabric). The same seed and the same calls give the same history.
//!
//! What it is for above all: a write of a dead lane can land *after* its sender was told that it
//! failed, unless the target closed its end. See [`Faults::hold`].
//!
//! Without faults nothing takes time, and every operation is over when it is posted. Where one takes
//! time, somebody must move the world: [`wait`](crate::wait) on such a lane sleeps by the real clock,
//! and wakes early only if another thread advances the world meanwhile.

mod call;
mod end;
mod fabric;
mod faults;
mod lane;
mod offer;
mod random;
mod state;
mod transport;
mod world;

#[cfg(test)]
mod tests;

pub use fabric::Sim;
pub use faults::Faults;
pub use world::{Config, World};

/// What a peer offers: well formed and the same again as bytes, or refused.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}
