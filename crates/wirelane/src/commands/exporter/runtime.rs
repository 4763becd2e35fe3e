//! The event loop on this thread, and a few threads that wait for collectors.

use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::commands::serve;

/// Starts it with all its threads: a GPU library that hangs while it is loaded holds the dynamic linker's lock, and then
/// no thread can be started.
pub(super) fn start() -> io::Result<Runtime> {
    prepare();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .thread_keep_alive(FOREVER)
        .build()?;
    runtime.block_on(async {
        let all = Arc::new(Barrier::new(THREADS));
        let wait = |_| {
            let all = all.clone();
            spawn_blocking(move || {
                prepare();
                all.wait()
            })
        };
        for thread in (0..THREADS).map(wait).collect::<Vec<_>>() {
            let _ = thread.await;
        }
    });
    Ok(runtime)
}

/// Serves a closed connection and formats a discarded log line on this thread: both register destructors with the linker,
/// once per thread.
fn prepare() {
    serve::prepare_thread();
    let discarded = tracing_subscriber::fmt().with_writer(io::sink).finish();
    tracing::subscriber::with_default(discarded, || tracing::error!("discarded"));
}

/// Two concurrent scrapes, a text file, and a password.
const THREADS: usize = 4;
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
