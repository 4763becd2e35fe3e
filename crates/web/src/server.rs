//! The server: connections and their limits.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use access::Phase;

use super::{Reply, Stream};

/// A request without its body, which is not used.
pub type Head = Parts;

/// What is served at one address.
pub trait Site: Clone + Send + Sync + 'static {
    /// What [`Site::begin`] learned about a connection: a client certificate, for example.
    type ConnectionInfo: Clone + Send + Sync + 'static;

    /// Begins a connection: plain, or after a handshake.
    fn begin(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<(Stream, Self::ConnectionInfo)>> + Send;

    /// Answers a request.
    fn answer(
        &self,
        head: &Head,
        info: &Self::ConnectionInfo,
    ) -> impl Future<Output = Reply> + Send;
}

/// Serves until the phase is [`Phase::Stopping`], then finishes answers in flight.
pub async fn serve(listener: TcpListener, site: impl Site, mut phase: watch::Receiver<Phase>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = Phase::Stopping.reached(&mut phase) => break,
        };
        match accepted {
            Ok((stream, _)) => admit(stream, &permits, &site, &phase),
            Err(error) => {
                // Most likely out of file descriptors: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let _ = permits.acquire_many(MAX_CONNECTIONS as u32).await;
}

/// Starts a task for the connection, or closes it at the limit.
fn admit(
    stream: TcpStream,
    permits: &Arc<Semaphore>,
    site: &impl Site,
    phase: &watch::Receiver<Phase>,
) {
    let Ok(permit) = permits.clone().try_acquire_owned() else {
        tracing::warn!(limit = MAX_CONNECTIONS, "too many HTTP connections, closed a new one");
        return;
    };
    let (site, phase) = (site.clone(), phase.clone());
    tokio::spawn(async move {
        match site.begin(stream).await {
            Ok((stream, info)) => serve_connection(stream, site, info, phase).await,
            Err(error) => tracing::debug!(%error, "HTTP: TLS handshake failed"),
        }
        drop(permit);
    });
}

async fn serve_connection<S: Site>(
    stream: Stream,
    site: S,
    info: S::ConnectionInfo,
    mut phase: watch::Receiver<Phase>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, info) = (site.clone(), info.clone());
        async move {
            // Keep the body until the answer is ready: a client that still sends it is not disconnected.
            let (head, _body) = request.into_parts();
            Ok::<Reply, Infallible>(site.answer(&head, &info).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = timeout(CONNECTION_TIMEOUT, connection.as_mut()) => ended.unwrap_or(Ok(())),
        () = Phase::Stopping.reached(&mut phase) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection ended");
    }
}

/// Enough for all scrapers and dashboards, few enough to need little memory.
const MAX_CONNECTIONS: usize = 256;
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// For a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection, so that a client that does not read its answer is closed too.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
