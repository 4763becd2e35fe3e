//! A listener: where peers call.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::plan::{Plans, agree};
use super::{Endpoint, Inner};
use crate::error::{Error, Kind};
use crate::link::config::Policy;
use crate::link::lane::Link;
use crate::link::protocol::hello::Hello;
use crate::session::{self, Acceptor, AcceptorConfig, AcceptorCounts, Caller, Refusal};
use crate::verbs;

/// Where peers call.
pub struct Listener {
    acceptor: Acceptor,
    inner: Arc<Inner>,
    /// Why nobody gets in any more.
    closed: Arc<OnceLock<String>>,
}

impl Listener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The next link; waits up to `limit`. Its rails come up while it is polled.
    pub fn accept(&self, limit: Duration) -> Option<Result<Link, Error>> {
        let session = self.acceptor.accept(limit)?;
        let Some(theirs) = Hello::parse(session.hello()) else {
            let why = "the caller's hello has an unknown format";
            let fix = "run the same version at both ends";
            return Some(Err(Error::new(Kind::Unsupported, "accept a link", why, fix)));
        };
        let policy = self.inner.settings.policy_for(session.peer_address().ip());
        let ours = self.inner.hello(policy, || self.inner.ports.glance());
        Some(self.inner.link(session, ours, theirs, Plans::default(), false))
    }

    /// From now on peers that call are sent away, and told why. What else the port serves, it still serves.
    pub fn close(&self, why: &str) {
        // The first reason stays.
        let _ = self.closed.set(why.to_owned());
    }

    /// Readable while [`Listener::accept`] would give a link at once.
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.acceptor.fd()
    }

    /// Who came, and who was sent away why.
    pub fn counts(&self) -> &AcceptorCounts {
        self.acceptor.counts()
    }
}

impl Endpoint {
    /// Lets others make links to us.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener, Error> {
        self.listen_beside(address, None)
    }

    /// As [`Endpoint::listen`], at a port that also serves something else: connections that do not begin
    /// as ours are given to `others`, with nothing of them read.
    pub fn listen_beside(
        &self,
        address: SocketAddr,
        others: Option<session::Others>,
    ) -> Result<Listener, Error> {
        let Inner { settings, callers, .. } = &*self.inner;
        let inner = self.inner.clone();
        let closed = Arc::new(OnceLock::new());
        let closing = closed.clone();
        let check = move |caller: &Caller, hello: &[u8]| match closing.get() {
            None => inner.answer(caller, hello),
            Some(why) => Err(Refusal { code: session::SHUTTING_DOWN, text: String::clone(why) }),
        };
        let callers = callers.clone();
        if self.inner.ports.are_there() {
            // So that the first callers get our ports too.
            self.inner.ports.look_within(SURVEY);
        }
        let acceptor = Acceptor::open(
            address,
            AcceptorConfig {
                keyring: settings.keyring.clone(),
                require_authentication: settings.require_authentication,
                max_sessions: settings.max_peers,
                session: session::Config { silence: settings.link.silence },
                lanes: Some(Arc::new(move |hello, socket| callers.deliver(hello, socket))),
                others,
                ..AcceptorConfig::new(check)
            },
        )?;
        Ok(Listener { acceptor, inner: self.inner.clone(), closed })
    }
}

impl Inner {
    /// Our hello for a caller's, on the listener's thread.
    fn answer(&self, caller: &Caller, hello: &[u8]) -> Result<Vec<u8>, Refusal> {
        let refuse = |code, text| Err(Refusal { code, text });
        let Some(theirs) = Hello::parse(hello) else {
            let text = "your hello has a format that this end does not know: run the same version at both ends";
            return refuse("wrong_hello", text.to_owned());
        };
        let ours =
            self.hello(self.settings.policy_for(caller.address.ip()), || self.ports.glance());
        // As the caller sees it: it is the leading end.
        if let Err(why) = agree(&theirs, &ours) {
            return refuse("policy", format!("{why}: change the policy of one of them"));
        }
        let allowed =
            |port: &verbs::UsablePort| verbs::allowed(&port.gid, &self.settings.verbs.allowed_gids);
        let wanted = ours.policy != Policy::Off && !theirs.ports.is_empty();
        if wanted && !theirs.ports.iter().any(allowed) {
            let text = "none of your GIDs is in this end's security.rdma.allowed_gids".to_owned();
            return refuse("gid_not_allowed", text);
        }
        Ok(ours.to_bytes())
    }
}

/// How long our own devices may keep a listener waiting.
const SURVEY: Duration = Duration::from_secs(5);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("listener", &self.acceptor).finish_non_exhaustive()
    }
}
