//! SIGHUP: tokens and certificates are read again.

use std::sync::Arc;

use access::Phase;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::guard::Guard;
use crate::output::Failure;

/// From now on the signal is heard, if there is something to read again; else it ends the process, as ever.
pub(super) fn listen(guard: &Guard) -> Result<Option<Signal>, Failure> {
    let heard = guard.can_reload().then(|| signal(SignalKind::hangup())).transpose();
    heard.map_err(|error| Failure::failed(format!("listen for signals: {error}")))
}

/// Reads again whenever the signal comes, until told to stop.
pub(super) async fn serve(
    signal: Option<Signal>,
    guard: Arc<Guard>,
    mut life: watch::Receiver<Phase>,
) {
    let Some(mut signal) = signal else { return };
    loop {
        tokio::select! {
            _ = signal.recv() => {}
            () = Phase::Stopping.reached(&mut life) => return,
        }
        let guard = guard.clone();
        match spawn_blocking(move || guard.reload()).await {
            Ok(Ok(identities)) => tracing::info!(identities, "read tokens and certificates again"),
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "tokens and certificates stay as they were")
            }
            Err(_) => {}
        }
    }
}
