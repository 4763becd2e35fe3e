//! One HTTP/2 connection: who gets in, and how long it stays.

use std::convert::Infallible;
use std::net::TcpStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use super::admission::Caller;
use super::counts::Counts;
use super::gate::Gate;
use super::unauthenticated::UnauthenticatedConnection;
use access::Phase;

/// Gives a connection a place and a task, or closes it.
pub(super) fn admit(
    socket: TcpStream,
    gate: &Arc<Gate>,
    counts: &Arc<Counts>,
    life: &watch::Receiver<Phase>,
) {
    let place = counts.place();
    if place.is_none() && !gate.unauthenticated().send_one_away() {
        tracing::warn!("too many gRPC connections, one was closed");
        return counts.turn_away();
    }
    let (gate, counts, life) = (gate.clone(), counts.clone(), life.clone());
    tokio::spawn(async move {
        let place = match place {
            Some(place) => Some(place),
            None => vacated(&gate, &counts).await,
        };
        let Some(place) = place else { return counts.turn_away() };
        let unauthenticated = Arc::new(gate.unauthenticated().come());
        let ended = tokio::select! {
            ended = converse(socket, gate, life, unauthenticated.clone()) => ended,
            () = unauthenticated.sent_away() => Err("it made no call, and others needed its place"),
        };
        if let Err(why) = ended {
            tracing::debug!(why, "a connection was closed");
            counts.turn_away();
        }
        drop(place);
    });
}

/// The place of somebody who was sent away; of another, if that one went to somebody else.
async fn vacated(gate: &Gate, counts: &Counts) -> Option<OwnedSemaphorePermit> {
    loop {
        let place = counts.next_place(MOMENT).await;
        if place.is_some() || !gate.unauthenticated().send_one_away() {
            return place;
        }
    }
}

async fn converse(
    socket: TcpStream,
    gate: Arc<Gate>,
    life: watch::Receiver<Phase>,
    unauthenticated: Arc<UnauthenticatedConnection>,
) -> Result<(), &'static str> {
    let stream = tokio::net::TcpStream::from_std(socket).map_err(|_| "it cannot be watched")?;
    // Answers are written when they are whole.
    let _ = stream.set_nodelay(true);
    let speaks = timeout(PATIENCE, greeted(&stream)).await.map_err(|_| "it says nothing")??;
    let caller = Caller::plain(gate.quota(), unauthenticated);
    match (speaks, gate.tls()) {
        (Protocol::Http2, None) => serve(stream, gate, caller, life).await,
        // It is told so by every call.
        (Protocol::Http2, Some(_)) => serve(stream, gate, caller.exposed(), life).await,
        (Protocol::Tls, None) => {
            return Err("it speaks TLS, for which this server has no certificate");
        }
        (Protocol::Tls, Some(tls)) => match tls.accept(stream, gate.access()).await {
            Ok((stream, shown)) => serve(stream, gate, caller.secure(shown), life).await,
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                return Err("its TLS handshake failed");
            }
        },
    }
    Ok(())
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    gate: Arc<Gate>,
    caller: Caller,
    mut life: watch::Receiver<Phase>,
) {
    let hang_up = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let (gate, caller, hang_up) = (gate.clone(), caller.clone(), hang_up.clone());
        async move { Ok::<_, Infallible>(gate.answer(request, &caller, hang_up).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a gRPC connection ended");
            }
        }
        () = hang_up.notified() => {
            tracing::debug!("an answer was not read for too long, its connection is closed");
        }
        () = Phase::Stopping.reached(&mut life) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// What a connection begins with.
enum Protocol {
    Http2,
    Tls,
}

/// Waits for what every HTTP/2 connection begins with, or TLS, and leaves it there to be read.
async fn greeted(stream: &tokio::net::TcpStream) -> Result<Protocol, &'static str> {
    let mut heard = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut heard).await.map_err(|_| "it hung up")?;
        match count {
            0 => return Err("it hung up"),
            _ if heard[0] == CLIENT_HELLO => return Ok(Protocol::Tls),
            _ if heard[..count] != PREFACE[..count] => return Err("it speaks no HTTP/2"),
            _ if count == PREFACE.len() => return Ok(Protocol::Http2),
            // Peeking does not wait for more than there is.
            _ => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// RFC 9113, 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first byte of TLS (RFC 8446, 5.1): a record of the handshake.
const CLIENT_HELLO: u8 = 0x16;
/// For the preface, and for an answer to a ping.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it takes to send somebody away, on a machine that has something else to do.
const MOMENT: Duration = Duration::from_millis(200);
/// How often a silent peer is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Calls at once.
const MAX_STREAMS: u32 = 128;
/// What a caller may send before we have read it, for each call; four times so much for all together.
const WINDOW: u32 = 1 << 20;
/// What is handed to the network before the peer has taken it, for each call.
const SEND_BUFFER: usize = 128 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
