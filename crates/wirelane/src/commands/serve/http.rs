//! The HTTP pages of `serve`, and who may read them.

use std::io;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::WWW_AUTHENTICATE;
use tokio::net::TcpStream;

use access::tls::{ClientCertificate, Tls};
use access::{Connection, Refused};

use super::authenticator::Authenticator;
use super::status::Status;
use web::{Head, PLAIN, Reply, Stream, routing_error, text};

/// The pages at one address.
#[derive(Clone)]
pub(super) struct StatusSite {
    status: Arc<Status>,
    /// `None`: /metrics only, without authentication.
    authenticator: Option<Arc<Authenticator>>,
    tls: Option<Arc<Tls>>,
}

impl StatusSite {
    /// All pages, for authenticated clients.
    pub(super) fn all(status: Arc<Status>, authenticator: Arc<Authenticator>) -> Self {
        StatusSite { status, tls: authenticator.http_tls(), authenticator: Some(authenticator) }
    }

    /// Metrics only, without authentication.
    pub(super) fn metrics(status: Arc<Status>) -> Self {
        StatusSite { status, authenticator: None, tls: None }
    }

    fn paths(&self) -> &'static [&'static str] {
        if self.authenticator.is_some() { &PATHS } else { &[METRICS] }
    }

    /// Whether the client may read this page; health needs no authentication.
    fn admit(
        &self,
        head: &Head,
        certificate: Option<&ClientCertificate>,
        connection: &Connection,
    ) -> Result<(), Refused> {
        match &self.authenticator {
            Some(authenticator) if PROTECTED.contains(&head.uri.path()) => {
                let permissions = authenticator.admit(&head.headers, certificate)?;
                // A connection beyond the share of its identity is answered, but not kept for it.
                let _ = permissions.map(|known| connection.authenticate(known.identity_name()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl web::Site for StatusSite {
    type ConnectionInfo = Option<Arc<ClientCertificate>>;

    async fn begin(&self, stream: TcpStream) -> io::Result<(Stream, Self::ConnectionInfo)> {
        let (Some(tls), Some(authenticator)) = (&self.tls, &self.authenticator) else {
            return Ok((Stream::Plain(stream), None));
        };
        let (stream, certificate) = tls.accept(stream, authenticator.access()).await?;
        Ok((Stream::Tls(Box::new(stream)), certificate))
    }

    async fn answer(
        &self,
        head: &Head,
        certificate: &Self::ConnectionInfo,
        connection: &Connection,
    ) -> Reply {
        if let Some(reply) = routing_error(head, self.paths()) {
            return reply;
        }
        if let Err(refused) = self.admit(head, certificate.as_deref(), connection) {
            return denied(refused);
        }
        let status = &self.status;
        match head.uri.path() {
            HEALTH => text(StatusCode::OK, PLAIN, "ok\n"),
            READY => match status.not_ready_reason() {
                None => text(StatusCode::OK, PLAIN, "ready\n"),
                Some(why) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("not ready: {why}\n"))
                }
            },
            METRICS => text(StatusCode::OK, metric::CONTENT_TYPE, status.metrics()),
            _ => match status.clone().json().await {
                Some(json) => text(StatusCode::OK, "application/json", json),
                None => {
                    let body = "an RDMA device does not answer; see the kernel log\n";
                    text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, body)
                }
            },
        }
    }
}

fn denied(refused: Refused) -> Reply {
    let (code, why) = match refused {
        Refused::Scope => (
            StatusCode::FORBIDDEN,
            "permission denied: this page requires permission to read all keys; use a token without a prefix\n",
        ),
        Refused::Rate => {
            (StatusCode::TOO_MANY_REQUESTS, "rate limit of this identity exceeded; retry later\n")
        }
        _ => (
            StatusCode::UNAUTHORIZED,
            "authentication required: send `authorization: Bearer TOKEN`, the name and the token as user and password, or \
             a client certificate if this server accepts them\n",
        ),
    };
    let mut reply = text(code, PLAIN, why);
    if code == StatusCode::UNAUTHORIZED {
        let challenge = "Basic realm=\"wirelane\"".parse().expect("a header value");
        reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    reply
}

const HEALTH: &str = "/healthz";
const READY: &str = "/readyz";
const METRICS: &str = "/metrics";
const STATUS: &str = "/api/v1/transport/status";
const PATHS: [&str; 4] = [HEALTH, READY, METRICS, STATUS];
/// Pages with information on the store and its clients.
const PROTECTED: [&str; 2] = [METRICS, STATUS];
