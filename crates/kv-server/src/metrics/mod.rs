//! The metrics of a server, for Prometheus. Queries no device, and is fast.
//!
//! `rows.rs` defines every metric; `store.rs`, `transport.rs` and `process.rs` add the samples.

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

/// The parts of a server that have metrics.
#[allow(missing_debug_implementations, reason = "its parts are handles")]
pub struct Server<'s> {
    /// The program's version.
    pub version: &'static str,
    /// The store.
    pub engine: &'s Engine,
    /// The counters of the gRPC service.
    pub grpc: &'s grpc::GrpcCounts,
    /// The sessions of the gRPC service.
    pub grpc_sessions: &'s Sessions,
    /// The workers that serve links, once started.
    pub workers: Option<&'s WorkerPoolHandle>,
    /// The endpoint of the links.
    pub endpoint: &'s Endpoint,
    /// The listener, once it is open.
    pub listener: Option<&'s Listener>,
    /// The events of links.
    pub events: &'s LinkEvents,
    /// The names of the RDMA devices.
    pub devices: Vec<String>,
    /// The limit of links.
    pub max_clients: u32,
    /// Whether the server is shutting down.
    pub is_draining: bool,
}

/// The metrics in Prometheus's text format, for one scrape.
pub fn render(prefix: &Prefix, server: &Server<'_>) -> String {
    let mut exposition = Exposition::new(prefix);
    store::add(&mut exposition, server);
    transport::add(&mut exposition, server);
    process::add(&mut exposition, server.version);
    exposition.to_string()
}

/// Adds a histogram with a bound per doubling, so that those of several servers can be added.
fn durations(
    exposition: &mut Exposition,
    row: &Row,
    histogram: &Histogram,
    doublings: RangeInclusive<u32>,
) {
    let bounds = histogram.powers_of_two(doublings);
    let mut buckets: Vec<(f64, u64)> =
        bounds.map(|(end, values)| (end.as_secs_f64(), values)).collect();
    let inside: u64 = buckets.iter().map(|(_, values)| values).sum();
    buckets.push((f64::INFINITY, histogram.count().saturating_sub(inside)));
    exposition.histogram(row, &[], &buckets, histogram.sum().as_secs_f64());
}
