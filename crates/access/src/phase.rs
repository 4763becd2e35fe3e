//! How far a server's life has come.

use tokio::sync::watch;

/// What all listeners of a server are told, by a `watch` channel: it only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Everybody is served.
    Serving,
    /// What is in flight is finished; nothing is begun, and who asks is told so.
    Draining,
    /// Everything ends.
    Stopping,
}

impl Phase {
    /// Waits until it has come, or nobody is left who could tell.
    pub async fn reached(self, life: &mut watch::Receiver<Phase>) {
        let _ = life.wait_for(|now| *now >= self).await;
    }
}
