//! The threads of the event loop. What they need of the dynamic linker they get before any device is asked: a
//! driver that hangs while it is loaded keeps the linker's lock, and whoever wants it then hangs too.

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

/// Starts them, and waits until each is prepared.
pub(super) fn start() -> io::Result<Runtime> {
    let (tell, told) = channel();
    // Several threads: a link that ends may keep its own for a moment.
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_start(move || {
            prepare();
            // Those that start later tell nobody.
            let _ = tell.send(());
        })
        .enable_all()
        .build()?;
    for _ in 0..WORKERS {
        let _ = told.recv_timeout(SOON);
    }
    Ok(runtime)
}

/// Has hyper serve a connection that is over already. On each thread it keeps the date for its headers, and
/// asks the linker, once, to forget it when the thread ends (hyper 1.12, with HTTP/2).
pub(crate) fn prepare() {
    let service =
        service_fn(|_| async { Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new())) });
    let connection = http1::Builder::new().serve_connection(Nobody, service);
    let _ = pin!(connection).poll(&mut Context::from_waker(Waker::noop()));
}

/// Says nothing, and hears nothing.
struct Nobody;

impl Read for Nobody {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Write for Nobody {
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

/// HTTP is small, gRPC copies in small pieces, and a link's own work is short.
const WORKERS: usize = 4;
/// Longer than a thread takes to start.
const SOON: Duration = Duration::from_secs(1);
