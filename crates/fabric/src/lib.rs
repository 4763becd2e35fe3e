//! What can carry bytes between this machine and others.
//!
//! Today it finds verbs devices, says which it would use and why RDMA can or cannot be used, and
//! holds [`Memory`]; the lanes that move bytes over verbs, shared memory and TCP come next, one
//! folder each. It reads no configuration and no environment of its own: the program hands it what
//! it needs.
//!
//! Start at [`verbs::survey`], [`verbs::choose`], [`verbs::Domain`] and [`Memory`].

mod error;
pub mod memory;
mod region;
pub mod verbs;

pub use error::{Error, Kind};
pub use memory::{Memory, Pages};
pub use region::{Region, Rights};
