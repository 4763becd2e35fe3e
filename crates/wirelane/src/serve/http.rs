//! The HTTP server: a few answers, and limits so that no caller can hold it up.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use kv_server::Phase;
use kv_server::access::Refused;
use kv_server::tls::{Certified, Tls};

use super::guard::Guard;
use super::metrics;
use super::status::Status;

/// What is served at one address.
#[derive(Clone)]
pub(super) struct Site {
    status: Arc<Status>,
    /// None: /metrics alone, to everybody.
    guard: Option<Arc<Guard>>,
    tls: Option<Arc<Tls>>,
}

impl Site {
    /// All there is, to those who may see it.
    pub(super) fn everything(status: Arc<Status>, guard: Arc<Guard>) -> Self {
        Site { status, tls: guard.http_tls(), guard: Some(guard) }
    }

    /// Metrics alone, to everybody.
    pub(super) fn metrics(status: Arc<Status>) -> Self {
        Site { status, guard: None, tls: None }
    }

    fn paths(&self) -> &'static [&'static str] {
        if self.guard.is_some() { &PATHS } else { &[METRICS] }
    }

    /// Whether this may be seen; health is told to everybody.
    fn admit<B>(
        &self,
        request: &Request<B>,
        certificate: Option<&Certified>,
    ) -> Result<(), Refused> {
        match &self.guard {
            Some(guard) if GUARDED.contains(&request.uri().path()) => {
                guard.admit(request, certificate)
            }
            _ => Ok(()),
        }
    }
}

/// Serves until told to stop, then lets answers under way finish.
pub(super) async fn serve(listener: TcpListener, site: Site, mut life: watch::Receiver<Phase>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the server is gone.
            () = Phase::Stopping.reached(&mut life) => break,
        };
        match accepted {
            Ok((stream, _)) => admit(stream, &places, &site, &life),
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to come back.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let _ = places.acquire_many(MOST_CONNECTIONS as u32).await;
}

/// Gives the connection a place and a task, or closes it when all places are taken.
fn admit(stream: TcpStream, places: &Arc<Semaphore>, site: &Site, life: &watch::Receiver<Phase>) {
    let Ok(place) = places.clone().try_acquire_owned() else {
        tracing::warn!(most = MOST_CONNECTIONS, "too many HTTP connections, one was closed");
        return;
    };
    let (site, life) = (site.clone(), life.clone());
    tokio::spawn(async move {
        converse(stream, site, life).await;
        drop(place);
    });
}

async fn converse(stream: TcpStream, site: Site, life: watch::Receiver<Phase>) {
    let (Some(tls), Some(guard)) = (&site.tls, &site.guard) else {
        return exchange(stream, site, None, life).await;
    };
    match tls.accept(stream, guard.access()).await {
        Ok((stream, shown)) => exchange(stream, site, shown, life).await,
        Err(error) => tracing::debug!(%error, "a TLS handshake for HTTP failed"),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    site: Site,
    certificate: Option<Arc<Certified>>,
    mut life: watch::Receiver<Phase>,
) {
    let service = service_fn(move |request| answer(request, site.clone(), certificate.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MOST_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = timeout(LONGEST_CONNECTION, connection.as_mut()) => ended.unwrap_or(Ok(())),
        () = Phase::Stopping.reached(&mut life) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection ended");
    }
}

async fn answer(
    request: Request<Incoming>,
    site: Site,
    certificate: Option<Arc<Certified>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let known = site.paths().contains(&path);
    if known && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response =
            text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD here\n".into());
        response.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("a header value"));
        return Ok(response);
    }
    if let Err(refused) = site.admit(&request, certificate.as_deref()) {
        return Ok(denied(refused));
    }
    let status = &site.status;
    Ok(match path {
        _ if !known => {
            let there = site.paths().join(", ");
            text(StatusCode::NOT_FOUND, PLAIN, format!("not here; there is {there}\n"))
        }
        HEALTH => text(StatusCode::OK, PLAIN, "ok\n".into()),
        READY => match status.obstacle() {
            None => text(StatusCode::OK, PLAIN, "ready\n".into()),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("no: {why}\n")),
        },
        METRICS => text(StatusCode::OK, metric::CONTENT_TYPE, metrics::render(status)),
        _ => match status.clone().json().await {
            Some(json) => text(StatusCode::OK, "application/json", json),
            None => {
                let body = "an RDMA device does not answer; look at the kernel's log\n";
                text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, body.into())
            }
        },
    })
}

fn denied(refused: Refused) -> Response<Full<Bytes>> {
    let (code, why) = match refused {
        Refused::Scope => (
            StatusCode::FORBIDDEN,
            "this identity may not read all keys, and this tells of all: take a token without a prefix\n",
        ),
        Refused::Rate => (
            StatusCode::TOO_MANY_REQUESTS,
            "more requests in a second than this identity may ask: wait a little\n",
        ),
        _ => (
            StatusCode::UNAUTHORIZED,
            "show who you are: `authorization: Bearer TOKEN`, a token's name and the token as user and password, or \
             a certificate where this server takes them\n",
        ),
    };
    let mut response = text(code, PLAIN, why.to_owned());
    if code == StatusCode::UNAUTHORIZED {
        let asked = "Basic realm=\"wirelane\"".parse().expect("a header value");
        response.headers_mut().insert(WWW_AUTHENTICATE, asked);
    }
    response
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind.parse().expect("a header value"));
    response
}

const HEALTH: &str = "/healthz";
const READY: &str = "/readyz";
const METRICS: &str = "/metrics";
const STATUS: &str = "/api/v1/transport/status";
const PATHS: [&str; 4] = [HEALTH, READY, METRICS, STATUS];
/// What tells of the store and of those who use it.
const GUARDED: [&str; 2] = [METRICS, STATUS];
const PLAIN: &str = "text/plain";

/// Enough for every scraper and dashboard of a site, few enough to need little memory.
const MOST_CONNECTIONS: usize = 256;
const MOST_HEADER_BYTES: usize = 16 * 1024;
/// How long a caller may take to send a request's head.
const PATIENCE: Duration = Duration::from_secs(10);
/// Also for a caller that does not read its answer: its place comes back.
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);
