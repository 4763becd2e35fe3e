//! Notifications from the disk's threads to connections.

use std::sync::Arc;

use crate::wakeup::Wakeup;
use crate::workers::connection::Notification;
use crate::workers::pool::Shared;

/// Notifies one connection of one worker.
pub(crate) struct Notifier {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) connection: u32,
}

impl Notifier {
    /// Queues a notification; returns the worker's wakeup if it may sleep.
    pub(crate) fn notify(self, notification: Notification) -> Option<Wakeup> {
        let Notifier { shared, worker, connection } = self;
        shared.notify(worker, connection, notification).then(|| shared.wakeup(worker))
    }
}
