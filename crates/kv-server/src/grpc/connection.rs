//! One HTTP/2 connection: its start, and its end.

use std::convert::Infallible;
use std::net::TcpStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::authenticated_caller::ConnectionCredentials;
use super::dispatcher::Dispatcher;
use access::{Connection, Connections, Phase};

/// Spawns the task of a connection, or closes it if there are too many.
pub(super) fn admit(
    socket: TcpStream,
    dispatcher: &Arc<Dispatcher>,
    connections: &Arc<Connections>,
    phase: &watch::Receiver<Phase>,
) {
    let Some(connection) = connections.admit() else { return };
    let connection = Arc::new(connection);
    let (dispatcher, connections, phase) = (dispatcher.clone(), connections.clone(), phase.clone());
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = handle(socket, dispatcher, phase, connection.clone()) => ended,
            () = connection.replaced() => {
                return tracing::debug!("gRPC connection closed: too many, and this one was idle for longest");
            }
        };
        if let Err(why) = ended {
            tracing::debug!(why, "gRPC connection closed");
            connections.count_refused();
        }
    });
}

async fn handle(
    socket: TcpStream,
    dispatcher: Arc<Dispatcher>,
    phase: watch::Receiver<Phase>,
    connection: Arc<Connection>,
) -> Result<(), &'static str> {
    let stream = tokio::net::TcpStream::from_std(socket).map_err(|_| "cannot watch its socket")?;
    // Answers are written completely, so there is nothing to coalesce.
    let _ = stream.set_nodelay(true);
    let detected = timeout(PEER_TIMEOUT, detect_protocol(&stream)).await;
    let protocol = detected.map_err(|_| "no HTTP/2 preface in time")??;
    let credentials = ConnectionCredentials::plain(dispatcher.quota(), connection);
    match (protocol, dispatcher.tls()) {
        (Protocol::Http2, None) => serve(stream, dispatcher, credentials, phase).await,
        // Every call is answered with an error that asks for TLS.
        (Protocol::Http2, Some(_)) => {
            serve(stream, dispatcher, credentials.without_tls(), phase).await
        }
        (Protocol::Tls, None) => {
            return Err("it uses TLS, and this server has no certificate");
        }
        (Protocol::Tls, Some(tls)) => match tls.accept(stream, dispatcher.access()).await {
            Ok((stream, certificate)) => {
                serve(stream, dispatcher, credentials.secure(certificate), phase).await;
            }
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                return Err("TLS handshake failed");
            }
        },
    }
    Ok(())
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    dispatcher: Arc<Dispatcher>,
    credentials: ConnectionCredentials,
    mut phase: watch::Receiver<Phase>,
) {
    let close = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let (dispatcher, credentials, close) =
            (dispatcher.clone(), credentials.clone(), close.clone());
        async move { Ok::<_, Infallible>(dispatcher.answer(request, &credentials, close).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(PEER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "gRPC connection ended");
            }
        }
        () = close.notified() => {
            tracing::debug!("gRPC connection closed: an answer was not read in time");
        }
        () = Phase::Stopping.reached(&mut phase) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// The protocol of a connection, by its first bytes.
enum Protocol {
    Http2,
    Tls,
}

/// Waits for the HTTP/2 preface, or for TLS, without consuming it.
async fn detect_protocol(stream: &tokio::net::TcpStream) -> Result<Protocol, &'static str> {
    let mut received = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut received).await.map_err(|_| "closed by the peer")?;
        match count {
            0 => return Err("closed by the peer"),
            _ if received[0] == TLS_HANDSHAKE => return Ok(Protocol::Tls),
            _ if received[..count] != PREFACE[..count] => return Err("not HTTP/2"),
            _ if count == PREFACE.len() => return Ok(Protocol::Http2),
            // Peeking returns immediately if there are any bytes.
            _ => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// RFC 9113, 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first byte of TLS (RFC 8446, 5.1): a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
/// For the preface, and for the answer to a ping.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent peer is pinged.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Concurrent calls per connection.
const MAX_STREAMS: u32 = 128;
/// Bytes that a caller may send before they are read, per call; four times as many per connection.
const WINDOW: u32 = 1 << 20;
/// Bytes buffered for sending, per call.
const SEND_BUFFER: usize = 128 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
