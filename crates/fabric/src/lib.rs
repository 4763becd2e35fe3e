//! Moves bytes between registered memories: over verbs, libfabric, shared memory or TCP, by one small trait.
//!
//! It reads no configuration and no environment of its own: the program hands it what it needs. It
//! does not know what the bytes mean. A lane is one path and stays dead once it died; a [`link::Link`]
//! chooses between transports, and goes on with another.
//!
//! Start at [`Lane`]. Around it: [`Memory`] holds bytes that peers may touch, [`Region`] is memory that
//! is registered, [`Window`] a peer's region; an [`Op`] goes in and comes back as a [`Completion`].
//! [`Fabric`] and [`Half`] make lanes; [`wait`] sleeps for them, [`drive()`] makes them awaitable. For
//! verbs there is more to see: [`verbs::survey()`] and [`verbs::choose()`]; for libfabric [`ofi::survey()`] and
//! [`ofi::choose()`].

mod attached_regions;
mod completion_sink;
mod drive;
mod engine;
mod error;
pub mod exchange;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod grants;
mod iovec;
mod keepalive;
mod lane;
pub mod link;
pub mod memory;
mod noise;
pub mod ofi;
mod op;
mod open;
mod region;
mod registration;
mod remote;
mod segment;
pub mod session;
mod setup;
pub mod shm;
pub mod sim;
mod slab;
mod splitter;
mod stats;
pub mod tcp;
mod timer;
pub mod verbs;

pub use drive::{AsyncLane, drive};
pub use error::{Error, Kind};
pub use lane::{BorrowedPath, Caps, LINGER, Lane, SPIN, linger, wait};
pub use memory::{Memory, Pages};
pub use op::{Completion, Done, Failure, Op, OpKind, Pieces, Work};
pub use open::open;
pub use region::{Region, Rights, Slice};
pub use remote::{RemoteRegion, Target, Window};
pub use setup::{Fabric, Half, Side};
pub use stats::{Histogram, SAMPLE, Stats};
