//! Opens the link within a time limit, even if a resolver or a device hangs.

use std::time::{Duration, Instant};

use fabric::ErrorKind;
use fabric::link::{Endpoint, Link};
use fabric::session::Credentials;

use crate::arguments::peer::Peer;
use crate::links::ticket::Tickets;
use crate::output::exit::{self, Failure};
use crate::timeout::with_timeout;

/// Connects to the first of the peer's addresses that answers.
pub(super) fn dial(
    endpoint: &Endpoint,
    peer: &Peer,
    tickets: Option<Tickets>,
    limit: Duration,
) -> Result<Link, Failure> {
    let waiting = || format!("connecting to {peer} (timeout {} s) …", limit.as_secs_f64());
    let (endpoint, to) = (endpoint.clone(), peer.clone());
    let link = with_timeout(limit, waiting, move || {
        try_addresses(&endpoint, &to, tickets.as_ref(), limit)
    })?;
    link.unwrap_or_else(|| {
        exit::immediately(Err(Failure::failed(format!(
            "connect to {peer}: an RDMA device of this machine, or the resolver, does not answer — see \
             the kernel log, or try --transport tcp"
        ))))
    })
}

/// The same on this thread, which may hang in a resolver or a device.
pub(crate) fn try_addresses(
    endpoint: &Endpoint,
    peer: &Peer,
    tickets: Option<&Tickets>,
    limit: Duration,
) -> Result<Link, Failure> {
    let started = Instant::now();
    let mut last = Failure::failed(format!("connect to {peer}: timed out"));
    for address in peer.resolve()? {
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            break;
        }
        let connected = match tickets {
            None => endpoint.connect(address, left),
            Some(tickets) => tickets.request(peer.host(), address, left).and_then(|ticket| {
                let left = limit.saturating_sub(started.elapsed());
                endpoint.connect_as(&Credentials::Ticket(ticket), address, left)
            }),
        };
        match connected {
            Ok(link) => return Ok(link),
            Err(error) => match error.kind() {
                // A server answered, and refused.
                ErrorKind::Denied | ErrorKind::Unsupported | ErrorKind::Full => {
                    return Err(error.into());
                }
                // Also `Misuse`: another kind of server answered.
                _ => last = Failure::failed(error.to_string()),
            },
        }
    }
    Err(last)
}
