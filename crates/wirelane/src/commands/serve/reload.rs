//! SIGHUP: rereads tokens and certificates.

use std::sync::Arc;

use access::Phase;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::authenticator::Authenticator;
use crate::output::Failure;

/// Handles the signal from now on, if there are files to reread; otherwise it ends the process, as by default.
pub(super) fn listen(authenticator: &Authenticator) -> Result<Option<Signal>, Failure> {
    let signal = authenticator.can_reload().then(|| signal(SignalKind::hangup())).transpose();
    signal.map_err(|error| Failure::failed(format!("listen for signals: {error}")))
}

/// Rereads the files at each signal, until shutdown.
pub(super) async fn serve(
    signal: Option<Signal>,
    authenticator: Arc<Authenticator>,
    mut phase: watch::Receiver<Phase>,
) {
    let Some(mut signal) = signal else { return };
    loop {
        tokio::select! {
            _ = signal.recv() => {}
            () = Phase::Stopping.reached(&mut phase) => return,
        }
        let authenticator = authenticator.clone();
        match spawn_blocking(move || authenticator.reload()).await {
            Ok(Ok(identities)) => tracing::info!(identities, "reloaded tokens and certificates"),
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "tokens and certificates not reloaded")
            }
            Err(_) => {}
        }
    }
}
