//! The event loop, on this thread, and a few threads that may wait for collectors.

use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::commands::serve;

/// Starts it, with all its threads: a GPU's library that hangs while it is loaded keeps the dynamic linker's lock, and no
/// thread can be started then.
pub(super) fn start() -> io::Result<Runtime> {
    prepare();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .thread_keep_alive(FOR_EVER)
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

/// Has this thread serve nobody and log nothing: both ask the linker, once, to tidy up when the thread ends.
fn prepare() {
    serve::prepare_thread();
    let unheard = tracing_subscriber::fmt().with_writer(io::sink).finish();
    tracing::subscriber::with_default(unheard, || tracing::error!("nobody hears this"));
}

/// Two scrapes at once, a text file, and a password.
const THREADS: usize = 4;
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
