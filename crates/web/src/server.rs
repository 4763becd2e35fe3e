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
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use access::{Connection, Connections, Phase};

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

    /// Answers a request. If its caller is authenticated, `connection` is told: at the limit of connections it is kept.
    fn answer(
        &self,
        head: &Head,
        info: &Self::ConnectionInfo,
        connection: &Connection,
    ) -> impl Future<Output = Reply> + Send;
}

/// Serves until the phase is [`Phase::Stopping`], then finishes answers in flight.
pub async fn serve(listener: TcpListener, site: impl Site, mut phase: watch::Receiver<Phase>) {
    let connections = Arc::new(Connections::new(MAX_CONNECTIONS));
    let mut reported = 0;
    let mut report = interval(REPORT_INTERVAL);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = report.tick() => {
                report_refused(&connections, &mut reported);
                continue;
            }
            () = Phase::Stopping.reached(&mut phase) => break,
        };
        match accepted {
            Ok((stream, _)) => admit(stream, &connections, &site, &phase),
            Err(error) => {
                // Most likely out of file descriptors: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    report_refused(&connections, &mut reported);
    connections.all_closed().await;
}

/// Logs how many connections were closed since the last report, if any.
fn report_refused(connections: &Connections, reported: &mut u64) {
    let all = connections.refused();
    let count = all - std::mem::replace(reported, all);
    if count > 0 {
        tracing::warn!(
            count,
            limit = MAX_CONNECTIONS,
            "too many HTTP connections, closed those that were idle for longest"
        );
    }
}

/// Starts a task for the connection. At the limit it replaces another.
fn admit(
    stream: TcpStream,
    connections: &Arc<Connections>,
    site: &impl Site,
    phase: &watch::Receiver<Phase>,
) {
    let Some(connection) = connections.admit() else { return };
    let (site, phase, connection) = (site.clone(), phase.clone(), Arc::new(connection));
    tokio::spawn(async move {
        tokio::select! {
            () = begin(stream, site, connection.clone(), phase) => {}
            () = connection.replaced() => tracing::debug!("HTTP connection closed for a new one"),
        }
    });
}

async fn begin(
    stream: TcpStream,
    site: impl Site,
    connection: Arc<Connection>,
    phase: watch::Receiver<Phase>,
) {
    match site.begin(stream).await {
        Ok((stream, info)) => serve_connection(stream, site, info, connection, phase).await,
        Err(error) => tracing::debug!(%error, "HTTP: TLS handshake failed"),
    }
}

async fn serve_connection<S: Site>(
    stream: Stream,
    site: S,
    info: S::ConnectionInfo,
    open: Arc<Connection>,
    mut phase: watch::Receiver<Phase>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, info, open) = (site.clone(), info.clone(), open.clone());
        async move {
            open.set_busy();
            // Keep the body until the answer is ready: a client that still sends it is not disconnected.
            let (head, _body) = request.into_parts();
            let reply = site.answer(&head, &info, &open).await;
            // From now on only the client's speed counts.
            open.set_idle();
            Ok::<Reply, Infallible>(reply)
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
/// How often connections closed at the limit are logged, as one count.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// For a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection, so that a client that does not read its answer is closed too.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
