//! The listener for links: opening it, and its counters as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fabric::link::{Endpoint, Listener};
use fabric::session::{OtherHandler, Reason};
use serde::Serialize;

use super::port_owner;
use crate::output::Failure;

/// Opens the listener; connections that are not links go to `others`. Queries the RDMA devices, so it blocks.
pub(super) fn open(
    endpoint: &Endpoint,
    address: SocketAddr,
    others: OtherHandler,
) -> Result<Listener, Failure> {
    endpoint.listen_shared(address, Some(others)).map_err(|error| {
        let fix = "choose another address with --listen HOST:PORT";
        Failure::failed(match port_owner::find(address) {
            Some(owner) => format!("listen on {address}: in use by {owner}. Stop it, or {fix}"),
            None => format!("{error}; or {fix}"),
        })
    })
}

/// Counters of accepted and refused peers.
#[derive(Debug, Serialize)]
pub(super) struct ListenerReport {
    address: SocketAddr,
    accepted: u64,
    alive: usize,
    half_open: usize,
    /// By reason.
    refused: BTreeMap<&'static str, u64>,
    /// Of those that `refused` counts as `refused`: by the error in the peer's hello.
    refused_hellos: BTreeMap<&'static str, u64>,
}

impl ListenerReport {
    pub(super) fn new(listener: &Listener) -> Self {
        let counts = listener.counts();
        let refused = Reason::ALL.map(|reason| (reason.name(), counts.refused(reason)));
        ListenerReport {
            address: listener.address(),
            accepted: counts.accepted(),
            alive: counts.alive(),
            half_open: counts.half_open(),
            refused: refused.into(),
            refused_hellos: counts.refused_hellos().into_iter().collect(),
        }
    }
}
