//! Where peers call: opening it, and who came, in JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fabric::link::{Endpoint, Listener};
use fabric::session::{OtherHandler, Reason};
use serde::Serialize;

use super::port_owner;
use crate::output::Failure;

/// Lets peers call; connections of others than links go to `others`. Asks the RDMA devices, so it blocks.
pub(super) fn open(
    endpoint: &Endpoint,
    address: SocketAddr,
    others: OtherHandler,
) -> Result<Listener, Failure> {
    endpoint.listen_shared(address, Some(others)).map_err(|error| {
        let other = "choose another address with --listen HOST:PORT";
        Failure::failed(match port_owner::find(address) {
            Some(owner) => format!("listen on {address}: in use by {owner}. Stop it, or {other}"),
            None => format!("{error}; or {other}"),
        })
    })
}

/// Who came, and who was sent away.
#[derive(Debug, Serialize)]
pub(super) struct ListenerReport {
    address: SocketAddr,
    accepted: u64,
    alive: usize,
    half_open: usize,
    /// By reason.
    refused: BTreeMap<&'static str, u64>,
    /// What `refused` counts as `refused`: by what was wrong with what the caller says of itself.
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
