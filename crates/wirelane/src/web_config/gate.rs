//! Pages behind a web config file, or behind nothing.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::passwords::{Credentials, Passwords, Verdict};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use web::{Head, PLAIN, Reply, Site, Stream, routing_error, text};

use super::watched_file::{Terms, Watched};
use crate::output::Failure;

/// What an exporter answers.
pub(crate) trait Pages: Send + Sync + 'static {
    /// Where there is something; anything else is "not here".
    fn paths(&self) -> &[&str];

    /// The page at one of these paths, by GET or HEAD.
    fn page(&self, head: &Head) -> impl Future<Output = Reply> + Send;
}

/// Pages at an address, with what is asked of callers.
#[derive(Debug)]
pub(crate) struct Gated<P> {
    pages: Arc<P>,
    gate: Arc<Gate>,
}

/// Who may come in, and how connections begin.
#[derive(Debug)]
pub(crate) struct Gate {
    rules: Option<Rules>,
}

#[derive(Debug)]
struct Rules {
    file: Watched,
    passwords: Passwords,
}

impl Gate {
    /// As the file says, which is read again when it changes; without one all may come, without TLS.
    pub(crate) fn open(file: Option<&Path>) -> Result<Gate, Failure> {
        let Some(file) = file else { return Ok(Gate { rules: None }) };
        let passwords =
            Passwords::new().ok_or_else(|| Failure::failed("the system gives no random bytes"))?;
        Ok(Gate { rules: Some(Rules { file: Watched::open(file)?, passwords }) })
    }

    /// `https` or `http`.
    pub(crate) fn scheme(&self) -> &'static str {
        let tls = self.rules.as_ref().is_some_and(|rules| rules.file.terms().tls.is_some());
        if tls { "https" } else { "http" }
    }
}

impl Rules {
    /// What keeps a caller out, if anything does.
    async fn refuse(&self, terms: &Terms, head: &Head) -> Option<Reply> {
        if terms.limiter.as_ref().is_some_and(|limiter| !limiter.admits(Instant::now())) {
            let why = "more requests than the web config allows: wait a little\n";
            return Some(text(StatusCode::TOO_MANY_REQUESTS, PLAIN, why));
        }
        let users = &terms.config.users;
        if users.is_empty() {
            return None;
        }
        let header = head.headers.get(AUTHORIZATION);
        let verdict = match header.and_then(|header| Credentials::parse(header.as_bytes())) {
            Some(credentials) => self.passwords.check(users, &credentials).await,
            None => Verdict::Wrong,
        };
        match verdict {
            Verdict::Right => None,
            Verdict::Wrong => Some(unauthorized()),
            Verdict::Busy => Some(busy()),
        }
    }
}

impl<P: Pages> Gated<P> {
    pub(crate) fn new(pages: P, gate: Gate) -> Self {
        Gated { pages: Arc::new(pages), gate: Arc::new(gate) }
    }

    async fn page(&self, head: &Head) -> Reply {
        match routing_error(head, self.pages.paths()) {
            Some(reply) => reply,
            None => self.pages.page(head).await,
        }
    }
}

impl<P> Clone for Gated<P> {
    fn clone(&self) -> Self {
        Gated { pages: self.pages.clone(), gate: self.gate.clone() }
    }
}

impl<P: Pages> Site for Gated<P> {
    type ConnectionInfo = ();

    async fn begin(&self, stream: TcpStream) -> io::Result<(Stream, ())> {
        let tls = self.gate.rules.as_ref().and_then(|rules| rules.file.terms().tls.clone());
        let Some(tls) = tls else { return Ok((Stream::Plain(stream), ())) };
        let stream = timeout(PATIENCE, TlsAcceptor::from(tls).accept(stream)).await??;
        Ok((Stream::Tls(Box::new(stream)), ()))
    }

    async fn answer(&self, head: &Head, (): &()) -> Reply {
        let Some(rules) = &self.gate.rules else { return self.page(head).await };
        let terms = rules.file.terms();
        let mut reply = match rules.refuse(&terms, head).await {
            Some(reply) => reply,
            None => self.page(head).await,
        };
        for (name, value) in &terms.config.headers {
            reply.headers_mut().insert(name, value.clone());
        }
        reply
    }
}

fn unauthorized() -> Reply {
    let why = "show a name and a password of the web config's basic_auth_users\n";
    let mut reply = text(StatusCode::UNAUTHORIZED, PLAIN, why);
    reply.headers_mut().insert(WWW_AUTHENTICATE, "Basic".parse().expect("a header value"));
    reply
}

fn busy() -> Reply {
    let why = "many passwords are being compared just now: ask again\n";
    let mut reply = text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
    reply.headers_mut().insert(RETRY_AFTER, "1".parse().expect("a header value"));
    reply
}

/// For the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
