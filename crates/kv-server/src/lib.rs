//! A key-value store on links: values are in a registered pool and are written from there directly into the
//! memory of clients.
//!
//! It trusts no client: every message is copied before it is parsed, is limited, and refers to
//! memory only by numbers. Clients cannot write to the store's memory.
//!
//! Start at [`Engine`], the store with its bytes, which all front ends use. [`WorkerPool`] is
//! the fast path: threads that serve links. One link is a connection (`workers/connection/`). [`grpc`] is the front end for any
//! gRPC client, over HTTP/2. [`access`] decides who may do what, on both.

mod engine;
pub mod grpc;
pub mod metrics;
mod slab;
mod wakeup;
mod workers;

pub use engine::{
    ClockWatch, Counts, DiskStatus, Engine, PersistenceCounts, PinnedValue, Quota, ReservedValue,
    Session, SessionId, Sessions, Settings, WriteStart,
};
pub use workers::connection::SCRATCH_BYTES;
pub use workers::pool::{WorkerPool, WorkerPoolHandle};
