//! What a server tells Prometheus. Asks no device, and takes no longer than counting does.
//!
//! `rows.rs` names every metric; `store.rs`, `transport.rs` and `process.rs` fill them in.

mod link_events;
mod process;
mod rows;
mod store;
mod transport;

use std::ops::RangeInclusive;

use fabric::Histogram;
use fabric::link::{Endpoint, Listener};
use metric::{Exposition, Prefix, Row};

use crate::{Engine, Sessions, WorkerPoolHandle, grpc};
pub use link_events::LinkEvents;

/// What a server consists of, as far as metrics tell of it.
#[allow(missing_debug_implementations, reason = "its parts are handles")]
pub struct Server<'s> {
    /// The program's version.
    pub version: &'static str,
    /// The store.
    pub engine: &'s Engine,
    /// What happened by gRPC.
    pub grpc: &'s grpc::Counts,
    /// Sessions by gRPC.
    pub grpc_sessions: &'s Sessions,
    /// Who serves links, once they do.
    pub workers: Option<&'s WorkerPoolHandle>,
    /// Where links are made.
    pub endpoint: &'s Endpoint,
    /// Where peers call, once it is open.
    pub listener: Option<&'s Listener>,
    /// What happened to links.
    pub events: &'s LinkEvents,
    /// Names of the RDMA devices that were found.
    pub devices: Vec<String>,
    /// How many links there may be.
    pub max_clients: u32,
    /// Whether the end has begun.
    pub is_draining: bool,
}

/// One scrape, with names that begin so.
pub fn render(prefix: &Prefix, server: &Server<'_>) -> String {
    let mut answer = Exposition::new(prefix);
    store::add(&mut answer, server);
    transport::add(&mut answer, server);
    process::add(&mut answer, server.version);
    answer.to_string()
}

/// A histogram as Prometheus has them: a bound for each doubling, so that those of several servers can be added up.
fn durations(
    answer: &mut Exposition,
    row: &Row,
    histogram: &Histogram,
    doublings: RangeInclusive<u32>,
) {
    let bounds = histogram.powers_of_two(doublings);
    let mut buckets: Vec<(f64, u64)> =
        bounds.map(|(end, values)| (end.as_secs_f64(), values)).collect();
    let inside: u64 = buckets.iter().map(|(_, values)| values).sum();
    buckets.push((f64::INFINITY, histogram.count().saturating_sub(inside)));
    answer.histogram(row, &[], &buckets, histogram.sum().as_secs_f64());
}
