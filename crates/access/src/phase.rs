//! The phases of a server, from start to stop.

use tokio::sync::watch;

/// Sent to all listeners of a server by a `watch` channel. Phases only advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// All requests are served.
    Serving,
    /// Requests in flight are finished, new ones are refused.
    Draining,
    /// The server stops.
    Stopping,
}

impl Phase {
    /// Waits until this phase is reached, or the sender is dropped.
    pub async fn reached(self, phase: &mut watch::Receiver<Phase>) {
        let _ = phase.wait_for(|now| *now >= self).await;
    }
}
