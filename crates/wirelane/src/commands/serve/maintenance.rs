//! Background work: removing expired values, closing the disk, prefaulting the pool.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use kv_server::Engine;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Removes expired values until shutdown. It is not urgent: an expired value is not found anyway.
pub(super) async fn remove_expired(engine: Arc<Engine>, mut phase: watch::Receiver<Phase>) {
    loop {
        let next = engine.clean_up().unwrap_or(MAX_PAUSE).clamp(MIN_PAUSE, MAX_PAUSE);
        let stopping = Phase::Stopping.reached(&mut phase);
        if timeout(next, stopping).await.is_ok() {
            return;
        }
    }
}

/// Closes the disk at shutdown. Its thread is started at the beginning: later, a device that does not
/// answer may prevent starting threads.
pub(super) struct Closer {
    close: oneshot::Sender<()>,
    closed: oneshot::Receiver<()>,
}

impl Closer {
    /// `None` if there is no disk.
    pub(super) fn start(engine: &Arc<Engine>) -> io::Result<Option<Self>> {
        if engine.disk_status().is_none() {
            return Ok(None);
        }
        let ((close, requested), (done, closed)) = (oneshot::channel(), oneshot::channel());
        let engine = engine.clone();
        let work = move || {
            if requested.blocking_recv().is_ok() {
                engine.close();
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("wirelane-close".to_owned()).spawn(work)?;
        Ok(Some(Closer { close, closed }))
    }

    /// All acknowledged writes are on the disk already: this only saves time at the next start.
    pub(super) async fn close(self) {
        let _ = self.close.send(());
        let _ = self.closed.await;
    }
}

/// Prefaults the pool on its own thread, while the store serves.
pub(super) fn prefault(engine: &Engine) {
    let pool = engine.pool().clone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = move || match pool.prefault(threads, |_| ()) {
        Ok(huge) => {
            tracing::info!(bytes = pool.len(), in_huge_pages = huge, "the pool is prefaulted");
        }
        Err(error) => tracing::warn!(%error, "the pool is not prefaulted"),
    };
    let thread = std::thread::Builder::new().name("wirelane-prefault".to_owned()).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "cannot start a thread to prefault the pool; pages are allocated on first use");
    }
}

/// Limits the CPU time of a store whose values expire all the time.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// A new value may expire before all others, and there is no notification of it.
const MAX_PAUSE: Duration = Duration::from_secs(1);
