//! Links: connections to peers. A link uses the best transport that works, and switches to another when it fails.
//!
//! Start at [`Endpoint`], which connects a [`Link`] to a peer or opens a [`Listener`] for incoming links;
//! [`Report`] has the transport that a link uses, and why.
//!
//! A link is a control connection and **rails**: paths of one transport (shared memory, RDMA devices, providers of libfabric, TCP) with
//! a lane each. Its core (`core/`) takes the time as an argument and owns no descriptor, so that everything it
//! does can be tested on simulated lanes. Writes and reads are posted to the lanes in chunks;
//! messages, immediate data of writes and atomic operations are sent as numbered messages that take effect once and
//! in order, whichever lane they arrive on. When a lane dies, its operations are unconfirmed until both ends have
//! closed it (`core/fence.rs`).

mod config;
mod connected_link;
mod core;
mod endpoint;
mod event;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod messages;
mod operations;
mod protocol;
mod rails;
mod regions;
mod report;
#[cfg(test)]
mod simulation;

pub use config::{Config, PeerPolicy, Policy};
pub use connected_link::Link;
pub use endpoint::settings::{EndpointSettings, EventHandler};
pub use endpoint::{Endpoint, Listener};
pub use event::{Event, EventKind};
pub use protocol::control::Transport;
pub use report::{LinkStatus, PortReport, RailReport, Report};

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::{messages as fuzz_messages, peer as fuzz_peer};
