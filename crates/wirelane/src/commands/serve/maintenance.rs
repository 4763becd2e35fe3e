//! What is done on the side: values whose time has come are removed, and the pool is prefaulted if that is wanted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use kv_server::Engine;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Removes what has expired, until told to stop. Nobody waits for it: an expired value is not found either way.
pub(super) async fn tidy(engine: Arc<Engine>, mut life: watch::Receiver<Phase>) {
    loop {
        let next = engine.clean_up().unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
        let stopping = Phase::Stopping.reached(&mut life);
        if timeout(next, stopping).await.is_ok() {
            return;
        }
    }
}

/// Ends the work on the disk when it is time. A thread that waits for that from the start: later, a device that does not
/// answer may keep others from being started.
pub(super) struct Closer {
    close: oneshot::Sender<()>,
    closed: oneshot::Receiver<()>,
}

impl Closer {
    /// None where there is no disk.
    pub(super) fn start(engine: &Arc<Engine>) -> io::Result<Option<Self>> {
        if engine.durability().is_none() {
            return Ok(None);
        }
        let ((close, asked), (done, closed)) = (oneshot::channel(), oneshot::channel());
        let engine = engine.clone();
        let work = move || {
            if asked.blocking_recv().is_ok() {
                engine.close();
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("wirelane-close".to_owned()).spawn(work)?;
        Ok(Some(Closer { close, closed }))
    }

    /// Everything that was asked for is on the disk already, or was never acknowledged: this only saves time at the
    /// next start.
    pub(super) async fn close(self) {
        let _ = self.close.send(());
        let _ = self.closed.await;
    }
}

/// Brings the pool's memory in, on a thread of its own: the store can be used meanwhile.
pub(super) fn prefault(engine: &Engine) {
    let pool = engine.pool().clone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = move || match pool.prefault(threads, |_| ()) {
        Ok(()) => tracing::info!(bytes = pool.len(), "the pool is prefaulted"),
        Err(error) => tracing::warn!(%error, "the pool is not prefaulted"),
    };
    let thread = std::thread::Builder::new().name("wirelane-prefault".to_owned()).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "cannot start a thread to prefault the pool; pages are allocated on first use");
    }
}

/// Between two looks, so that a store whose values expire all the time does something else too.
const SHORTEST: Duration = Duration::from_millis(10);
/// Nobody tells us of a value that expires sooner than all others.
const LONGEST: Duration = Duration::from_secs(1);
