//! What comes back to workers from threads that do something for them.

use std::sync::Arc;

use crate::wakeup::Wakeup;
use crate::workers::connection::Notifications;
use crate::workers::pool::Shared;

/// Tells one connection of one worker.
pub(crate) struct Notifier {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) connection: u32,
}

impl Notifier {
    /// The worker sees it when it looks; if it may sleep it is to be woken.
    pub(crate) fn tell(self, notifications: Notifications) -> Option<Wakeup> {
        let Notifier { shared, worker, connection } = self;
        shared.tell(worker, connection, notifications).then(|| shared.wakeup(worker))
    }
}
