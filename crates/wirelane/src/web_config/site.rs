//! Pages with the access rules of a web config file, or without any.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Connection;
use access::passwords::{Credentials, PasswordCheck, Passwords};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use web::{Head, PLAIN, Reply, Site, Stream, routing_error, text};

use super::watched_file::{LoadedConfig, WatchedFile};
use crate::output::Failure;

/// The pages of an exporter.
pub(crate) trait Pages: Send + Sync + 'static {
    /// The existing paths; others are not found.
    fn paths(&self) -> &[&str];

    /// The page at one of these paths, by GET or HEAD.
    fn page(&self, head: &Head) -> impl Future<Output = Reply> + Send;
}

/// Pages with their access rules.
#[derive(Debug)]
pub(crate) struct ProtectedSite<P> {
    pages: Arc<P>,
    rules: Arc<AccessRules>,
}

/// TLS, passwords and the rate limit of a web config file, if there is one.
#[derive(Debug)]
pub(crate) struct AccessRules {
    web_config: Option<WebConfig>,
}

#[derive(Debug)]
struct WebConfig {
    file: WatchedFile,
    passwords: Passwords,
}

impl AccessRules {
    /// The rules of a file, which is reloaded when it changes; without a file there is no TLS and no authentication.
    pub(crate) fn open(file: Option<&Path>) -> Result<AccessRules, Failure> {
        let Some(file) = file else { return Ok(AccessRules { web_config: None }) };
        let passwords = Passwords::new()
            .ok_or_else(|| Failure::failed("no random bytes from the system — see getrandom(2)"))?;
        Ok(AccessRules {
            web_config: Some(WebConfig { file: WatchedFile::open(file)?, passwords }),
        })
    }

    /// `https` or `http`.
    pub(crate) fn scheme(&self) -> &'static str {
        let config = self.web_config.as_ref();
        let tls = config.is_some_and(|config| config.file.config().tls.is_some());
        if tls { "https" } else { "http" }
    }
}

impl WebConfig {
    /// The reply to a request that the rules refuse; `None` if it is allowed.
    async fn refuse(
        &self,
        loaded: &LoadedConfig,
        head: &Head,
        connection: &Connection,
    ) -> Option<Reply> {
        if loaded.limiter.as_ref().is_some_and(|limiter| !limiter.admits(Instant::now())) {
            let why = "rate limit of the web config exceeded; retry later\n";
            return Some(text(StatusCode::TOO_MANY_REQUESTS, PLAIN, why));
        }
        let users = &loaded.config.users;
        if users.is_empty() {
            return None;
        }
        let header = head.headers.get(AUTHORIZATION);
        let credentials = header.and_then(|header| Credentials::parse(header.as_bytes()));
        let verdict = match &credentials {
            Some(credentials) => self.passwords.check(users, credentials).await,
            None => PasswordCheck::Wrong,
        };
        match verdict {
            PasswordCheck::Right => {
                // A connection beyond the share of its user is answered, but not kept for it.
                let _ = credentials.map(|known| connection.authenticate(known.name()));
                None
            }
            PasswordCheck::Wrong => Some(unauthorized()),
            PasswordCheck::Busy => Some(busy()),
        }
    }
}

impl<P: Pages> ProtectedSite<P> {
    pub(crate) fn new(pages: P, rules: AccessRules) -> Self {
        ProtectedSite { pages: Arc::new(pages), rules: Arc::new(rules) }
    }

    async fn page(&self, head: &Head) -> Reply {
        match routing_error(head, self.pages.paths()) {
            Some(reply) => reply,
            None => self.pages.page(head).await,
        }
    }
}

impl<P> Clone for ProtectedSite<P> {
    fn clone(&self) -> Self {
        ProtectedSite { pages: self.pages.clone(), rules: self.rules.clone() }
    }
}

impl<P: Pages> Site for ProtectedSite<P> {
    type ConnectionInfo = ();

    async fn begin(&self, stream: TcpStream) -> io::Result<(Stream, ())> {
        let config = self.rules.web_config.as_ref();
        let tls = config.and_then(|config| config.file.config().tls.clone());
        let Some(tls) = tls else { return Ok((Stream::Plain(stream), ())) };
        let stream = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(stream)).await??;
        Ok((Stream::Tls(Box::new(stream)), ()))
    }

    async fn answer(&self, head: &Head, (): &(), connection: &Connection) -> Reply {
        let Some(config) = &self.rules.web_config else { return self.page(head).await };
        let loaded = config.file.config();
        let mut reply = match config.refuse(&loaded, head, connection).await {
            Some(reply) => reply,
            None => self.page(head).await,
        };
        for (name, value) in &loaded.config.headers {
            reply.headers_mut().insert(name, value.clone());
        }
        reply
    }
}

fn unauthorized() -> Reply {
    let why =
        "authentication required: send a user and password of basic_auth_users in the web config\n";
    let mut reply = text(StatusCode::UNAUTHORIZED, PLAIN, why);
    reply.headers_mut().insert(WWW_AUTHENTICATE, "Basic".parse().expect("a header value"));
    reply
}

fn busy() -> Reply {
    let why = "too many passwords are being checked; retry\n";
    let mut reply = text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
    reply.headers_mut().insert(RETRY_AFTER, "1".parse().expect("a header value"));
    reply
}

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
