//! A listener for incoming links.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::plan::{Plans, combine_policies};
use super::ports::DEVICE_QUERY_TIMEOUT;
use super::{Endpoint, Inner};
use crate::error::{Error, ErrorKind};
use crate::link::config::Policy;
use crate::link::connected_link::Link;
use crate::link::protocol::hello::Hello;
use crate::session::{
    self, InitiatorInfo, ListenerConfig, ListenerCounts, Refusal, SessionListener,
};
use crate::verbs;

/// Accepts links from peers.
pub struct Listener {
    session_listener: SessionListener,
    inner: Arc<Inner>,
    /// The reason, if new links are refused.
    closed: Arc<OnceLock<String>>,
}

impl Listener {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.session_listener.address()
    }

    /// The next link; waits up to `limit`. Its rails are set up while it is polled.
    pub fn accept(&self, limit: Duration) -> Option<Result<Link, Error>> {
        let session = self.session_listener.accept(limit)?;
        let Some(theirs) = Hello::parse(session.hello()) else {
            let why = "the initiator's hello has an unknown format";
            let fix = "run the same version at both ends";
            return Some(Err(Error::new(ErrorKind::Unsupported, "accept a link", why, fix)));
        };
        let policy = self.inner.settings.policy_for(session.peer_address().ip());
        let ours = self.inner.hello(policy, || self.inner.ports.cached());
        Some(self.inner.link(session, ours, theirs, Plans::default(), false))
    }

    /// Refuses new links from now on, with this reason. Other protocols on the port are still served.
    pub fn close(&self, why: &str) {
        // Only the first reason is stored.
        let _ = self.closed.set(why.to_owned());
    }

    /// Readable while [`Listener::accept`] would return a link without waiting.
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.session_listener.fd()
    }

    /// Counters of accepted and refused connections.
    pub fn counts(&self) -> &ListenerCounts {
        self.session_listener.counts()
    }
}

impl Endpoint {
    /// Listens for links from peers.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener, Error> {
        self.listen_shared(address, None)
    }

    /// As [`Endpoint::listen`], on a port that also serves other protocols: connections that do not start
    /// with our magic are passed to `others`, unread.
    pub fn listen_shared(
        &self,
        address: SocketAddr,
        others: Option<session::OtherHandler>,
    ) -> Result<Listener, Error> {
        let Inner { settings, connection_router, .. } = &*self.inner;
        let inner = self.inner.clone();
        let closed = Arc::new(OnceLock::new());
        let closing = closed.clone();
        let check = move |initiator: &InitiatorInfo, hello: &[u8]| match closing.get() {
            None => inner.answer(initiator, hello),
            Some(why) => Err(Refusal { code: session::SHUTTING_DOWN, text: String::clone(why) }),
        };
        let connection_router = connection_router.clone();
        if self.inner.ports.is_enabled() {
            // So that our hello to the first initiators has the ports too.
            self.inner.ports.query_within(DEVICE_QUERY_TIMEOUT);
        }
        let session_listener = SessionListener::open(
            address,
            ListenerConfig {
                keyring: settings.keyring.clone(),
                require_authentication: settings.require_authentication,
                max_sessions: settings.max_peers,
                session: session::Config { peer_timeout: settings.link.peer_timeout },
                on_lane: Some(Arc::new(move |header, socket| {
                    connection_router.deliver(header, socket)
                })),
                on_other: others,
                ..ListenerConfig::new(check)
            },
        )?;
        Ok(Listener { session_listener, inner: self.inner.clone(), closed })
    }
}

impl Inner {
    /// Answers an initiator's hello with ours, on the listener's thread.
    fn answer(&self, initiator: &InitiatorInfo, hello: &[u8]) -> Result<Vec<u8>, Refusal> {
        let refuse = |code, text| Err(Refusal { code, text });
        let Some(theirs) = Hello::parse(hello) else {
            let text = "unknown hello format: run the same version at both ends";
            return refuse("wrong_hello", text.to_owned());
        };
        let ours =
            self.hello(self.settings.policy_for(initiator.address.ip()), || self.ports.cached());
        // From the initiator's point of view: it plans the rails.
        if let Err(why) = combine_policies(&theirs, &ours) {
            return refuse("policy", format!("{why}: change the policy of one end"));
        }
        let allowed =
            |port: &verbs::UsablePort| verbs::allowed(&port.gid, &self.settings.verbs.allowed_gids);
        let wanted = ours.policy != Policy::Off && !theirs.ports.is_empty();
        if wanted && !theirs.ports.iter().any(allowed) {
            let text =
                "none of the initiator's GIDs is in security.rdma.allowed_gids of the listener"
                    .to_owned();
            return refuse("gid_not_allowed", text);
        }
        Ok(ours.to_bytes())
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("listener", &self.session_listener).finish_non_exhaustive()
    }
}
