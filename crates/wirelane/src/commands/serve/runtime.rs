//! The threads of the event loop. They finish their work with the dynamic linker before any device is queried: a
//! driver that hangs while it is loaded holds the linker's lock, and a thread that waits for the lock hangs too.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::runtime::{Builder, Runtime};

/// Starts the threads, and waits until each is prepared.
pub(super) fn start() -> io::Result<Runtime> {
    let (prepared_tx, prepared_rx) = channel();
    // Several threads: a link that ends may block one for a moment.
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_start(move || {
            prepare();
            // For threads that start later the receiver is gone.
            let _ = prepared_tx.send(());
        })
        .enable_all()
        .build()?;
    for _ in 0..WORKERS {
        let _ = prepared_rx.recv_timeout(START_TIMEOUT);
    }
    Ok(runtime)
}

/// Lets hyper serve a closed connection. On each thread hyper caches the date for its headers, and registers the
/// cache's destructor with the linker once (hyper 1.12, with HTTP/2).
pub(crate) fn prepare() {
    let service =
        service_fn(|_| async { Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new())) });
    let connection = http1::Builder::new().serve_connection(ClosedConnection, service);
    let _ = pin!(connection).poll(&mut Context::from_waker(Waker::noop()));
}

/// At its end on reads; discards writes.
struct ClosedConnection;

impl Read for ClosedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Write for ClosedConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// HTTP answers are small, gRPC copies in small pieces, and links do little work here.
const WORKERS: usize = 4;
/// Longer than a thread takes to start.
const START_TIMEOUT: Duration = Duration::from_secs(1);
