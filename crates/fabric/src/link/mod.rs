//! Links: what callers hold for a peer. The best transport is chosen, and another when it dies.
//!
//! Start at [`Endpoint`], which makes a [`Link`] to a peer or a [`Listener`] for those who call;
//! [`Report`] says which transport a link uses and why.
//!
//! A link is a control connection and **rails**: paths of one class (shared memory, RDMA devices, providers of libfabric, TCP) with
//! a lane each. Its core (`core/`) is told the time and owns no descriptor, so that everything it
//! does can be tried on simulated lanes. Writes and reads go over the lanes as they are, cut into pieces;
//! messages, immediate data of writes and atomic operations go as numbered messages that take effect once and
//! in order, whatever lane brings them. When a lane dies, its operations are unconfirmed until both ends have
//! closed it (`core/fence.rs`).

mod config;
mod core;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod lane;
mod messages;
mod operations;
mod protocol;
mod rails;
mod regions;
mod report;
#[cfg(test)]
mod trial;

pub use config::{Config, PeerPolicy, Policy};
pub use endpoint::settings::{Listening, Settings};
pub use endpoint::{Endpoint, Listener};
pub use event::{Event, Happening};
pub use lane::Link;
pub use protocol::control::Class;
pub use report::{Explanation, PortReport, RailReport, Report};

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::{messages as fuzz_messages, peer as fuzz_peer};
