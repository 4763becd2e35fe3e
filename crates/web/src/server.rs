//! Connections, within limits.

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

/// A request without its body, which nobody here reads.
pub type Head = Parts;

/// What is served at one address.
pub trait Site: Clone + Send + Sync + 'static {
    /// What a caller has shown when its connection began.
    type Shown: Clone + Send + Sync + 'static;

    /// Begins a connection: plain, or after a handshake.
    fn begin(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<(Stream, Self::Shown)>> + Send;

    /// Answers a request.
    fn answer(&self, head: &Head, shown: &Self::Shown) -> impl Future<Output = Reply> + Send;
}

/// Serves until told to stop, then lets answers in flight finish.
pub async fn serve(listener: TcpListener, site: impl Site, mut life: watch::Receiver<Phase>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
    let _ = places.acquire_many(MAX_CONNECTIONS as u32).await;
}

/// Gives the connection a place and a task, or closes it when all places are taken.
fn admit(
    stream: TcpStream,
    places: &Arc<Semaphore>,
    site: &impl Site,
    life: &watch::Receiver<Phase>,
) {
    let Ok(place) = places.clone().try_acquire_owned() else {
        tracing::warn!(most = MAX_CONNECTIONS, "too many HTTP connections, one was closed");
        return;
    };
    let (site, life) = (site.clone(), life.clone());
    tokio::spawn(async move {
        match site.begin(stream).await {
            Ok((stream, shown)) => converse(stream, site, shown, life).await,
            Err(error) => tracing::debug!(%error, "a TLS handshake for HTTP failed"),
        }
        drop(place);
    });
}

async fn converse<S: Site>(
    stream: Stream,
    site: S,
    shown: S::Shown,
    mut life: watch::Receiver<Phase>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, shown) = (site.clone(), shown.clone());
        async move {
            // The body stays until the answer is there: a caller that still sends it is not cut off.
            let (head, _body) = request.into_parts();
            Ok::<Reply, Infallible>(site.answer(&head, &shown).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MAX_HEADER_BYTES)
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

/// Enough for every scraper and dashboard of a site, few enough to need little memory.
const MAX_CONNECTIONS: usize = 256;
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// How long a caller may take to send a request's head.
const PATIENCE: Duration = Duration::from_secs(10);
/// Also for a caller that does not read its answer: its place comes back.
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);
