//! A key-value store on links: values lie in a registered pool and go from there straight into the
//! memory of clients.
//!
//! It trusts no client: everything that comes in is copied before it is looked at, has a limit, and names
//! memory only by numbers. No memory of the store's can be written by anybody else.
//!
//! Start at [`Engine`], which is the store with its bytes, whichever front end requests come from. [`WorkerPool`] is
//! the fast path: threads that serve links. One link is a connection (`connection`). [`grpc`] is the front end for everybody
//! else: HTTP/2 connections, by any gRPC client. Who may do what, by either, is [`access`]'s.

mod engine;
pub mod grpc;
pub mod metrics;
mod rows;
mod wakeup;
mod workers;

pub use engine::{
    Counts, Durability, Engine, Held, JournalCounts, Quota, Session, SessionId, Sessions, Settings,
    Staged, Turn,
};
pub use workers::connection::SCRATCH;
pub use workers::pool::{WorkerPool, WorkerPoolHandle};
