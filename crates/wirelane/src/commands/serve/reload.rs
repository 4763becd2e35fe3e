//! SIGHUP: rereads tokens and certificates.

use std::sync::Arc;

use access::Phase;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::authenticator::Guard;
use crate::output::Failure;

/// Handles the signal from now on, if there are files to reread; otherwise it ends the process, as by default.
pub(super) fn listen(guard: &Guard) -> Result<Option<Signal>, Failure> {
    let signal = guard.can_reload().then(|| signal(SignalKind::hangup())).transpose();
    signal.map_err(|error| Failure::failed(format!("listen for signals: {error}")))
}

/// Rereads the files at each signal, until shutdown.
pub(super) async fn serve(
    signal: Option<Signal>,
    guard: Arc<Guard>,
    mut phase: watch::Receiver<Phase>,
) {
    let Some(mut signal) = signal else { return };
    loop {
        tokio::select! {
            _ = signal.recv() => {}
            () = Phase::Stopping.reached(&mut phase) => return,
        }
        let guard = guard.clone();
        match spawn_blocking(move || guard.reload()).await {
            Ok(Ok(identities)) => tracing::info!(identities, "reloaded tokens and certificates"),
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "tokens and certificates not reloaded")
            }
            Err(_) => {}
        }
    }
}
