//! Moves bytes between registered memories: over verbs, libfabric, shared memory or TCP, through one small trait.
//!
//! It reads no configuration, and of the environment only libfabric's own variables: the program passes in what it needs. It
//! does not interpret the bytes. A lane is one path and is not revived after a failure; a [`link::Link`]
//! chooses between transports, and fails over to another.
//!
//! Start at [`Lane`]. Around it: [`Memory`] is memory that peers may access, [`Region`] is memory that
//! is registered, [`Window`] a peer's region; a posted [`Op`] is returned in a [`Completion`].
//! [`Fabric`] and [`UnconnectedLane`] create lanes; [`wait`] waits for completions, [`drive()`] makes lanes awaitable. Devices
//! for verbs are listed by [`verbs::list_devices()`] and chosen by [`verbs::choose()`]; for libfabric [`ofi::list_providers()`] and
//! [`ofi::choose()`].

mod attached_regions;
mod completion_sink;
mod drive;
mod error;
mod exchange;
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
mod packets;
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
mod stream_engine;
pub mod tcp;
mod timer;
mod unreleased;
pub mod verbs;

pub use drive::{AsyncLane, drive};
pub use error::{Error, ErrorKind};
pub use exchange::exchange;
pub use lane::{
    BUSY_WAIT_TIME, Caps, Lane, MappedInto, PrivateMemoryPath, SPIN_TIME, busy_wait, wait,
};
pub use memory::{Memory, Pages};
pub use op::{Completion, Done, Failure, Op, OpKind, Slices, Work};
pub use open::open;
pub use packets::{Packet, PacketCounts, PacketReceiver, Packets};
pub use region::{Region, Rights, Slice};
pub use remote::{RemoteRegion, Target, Window};
pub use setup::{Direction, Fabric, Side, UnconnectedLane};
pub use stats::{Histogram, OPS_PER_LATENCY_SAMPLE, Stats};
pub use unreleased::unreleased;
