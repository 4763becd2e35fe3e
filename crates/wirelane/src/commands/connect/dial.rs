//! Makes the link, within a time limit whatever a resolver or a device does.

use std::time::{Duration, Instant};

use fabric::Kind;
use fabric::link::{Endpoint, Link};
use fabric::session::Credentials;

use crate::arguments::peer::Peer;
use crate::links::ticket::Tickets;
use crate::output::exit::{self, Failure};
use crate::timeout::within;

/// Connects by the first of the peer's addresses that answers.
pub(super) fn dial(
    endpoint: &Endpoint,
    peer: &Peer,
    tickets: Option<Tickets>,
    limit: Duration,
) -> Result<Link, Failure> {
    let waiting = || format!("connecting to {peer}, for {} s at most …", limit.as_secs_f64());
    let (endpoint, to) = (endpoint.clone(), peer.clone());
    let link =
        within(limit, waiting, move || try_addresses(&endpoint, &to, tickets.as_ref(), limit))?;
    link.unwrap_or_else(|| {
        exit::at_once(Err(Failure::failed(format!(
            "connect to {peer}: an RDMA device of this machine, or the resolver, does not answer — look at \
             the kernel's log, or try --transport tcp"
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
    let begun = Instant::now();
    let mut last = Failure::failed(format!("connect to {peer}: no time was left"));
    for address in peer.resolve()? {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        let connected = match tickets {
            None => endpoint.connect(address, left),
            Some(tickets) => tickets.ask(peer.host(), address, left).and_then(|ticket| {
                let left = limit.saturating_sub(begun.elapsed());
                endpoint.connect_as(&Credentials::Ticket(ticket), address, left)
            }),
        };
        match connected {
            Ok(link) => return Ok(link),
            Err(error) => match error.kind() {
                // Somebody is there, and says no.
                Kind::Denied | Kind::Unsupported | Kind::Full => return Err(error.into()),
                // Also `Misuse`: something else answers there.
                _ => last = Failure::failed(error.to_string()),
            },
        }
    }
    Err(last)
}
