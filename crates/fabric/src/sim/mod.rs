//! A simulated lane, for tests of everything above lanes: virtual time, and faults at any time.
//!
//! It uses no device and no clock. A [`World`] has the time, which is advanced only by
//! [`World::advance`] or [`World::step`], and **wires**, which can be slow, lossy, dead or
//! revived. [`World::fabric`] returns a host's end of a wire, which is used like any other
//! [`Fabric`](crate::Fabric). The same seed and the same calls give the same history.
//!
//! The most important case: a write of a dead lane can take effect *after* its sender got the
//! failure, unless the target closed its end. See [`Faults::hold`].
//!
//! Without faults nothing takes time, and every operation is finished when it is posted. Otherwise
//! the test must advance the world: [`wait`](crate::wait) on such a lane sleeps by the real clock,
//! and wakes early only if another thread advances the world.

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

/// An offer is refused, or encoded again to the same bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}
