//! What is done on the side: values whose time has come are removed, and memory is brought in if that is wanted.

use std::sync::Arc;
use std::time::Duration;

use kv_server::{Engine, Phase};
use tokio::sync::watch;
use tokio::time::timeout;

/// Removes what has expired, until told to stop. Nobody waits for it: an expired value is not found either way.
pub(super) async fn tidy(engine: Arc<Engine>, mut life: watch::Receiver<Phase>) {
    loop {
        let next = engine.tidy().unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
        let stopping = Phase::Stopping.reached(&mut life);
        if timeout(next, stopping).await.is_ok() {
            return;
        }
    }
}

/// Brings the pool's memory in, on a thread of its own: the store can be used meanwhile.
pub(super) fn prefault(engine: &Engine) {
    let pool = engine.pool().clone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = move || match pool.prefault(threads, |_| ()) {
        Ok(()) => tracing::info!(bytes = pool.len(), "all memory is there"),
        Err(error) => tracing::warn!(%error, "not all memory is there"),
    };
    let thread = std::thread::Builder::new().name("wirelane-prefault".to_owned()).spawn(work);
    if let Err(error) = thread {
        tracing::warn!(%error, "memory comes page by page, since no thread can be started");
    }
}

/// Between two looks, so that a store whose values expire all the time does something else too.
const SHORTEST: Duration = Duration::from_millis(10);
/// Nobody tells us of a value that expires sooner than all others.
const LONGEST: Duration = Duration::from_secs(1);
