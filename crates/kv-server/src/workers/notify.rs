//! What comes back to workers from threads that do something for them.

use std::sync::Arc;

use crate::wakeup::Wakeup;
use crate::workers::connection::News;
use crate::workers::pool::Shared;

/// Tells one guest of one worker.
pub(crate) struct Teller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) guest: u32,
}

impl Teller {
    /// The worker sees it when it looks; if it may sleep it is to be woken.
    pub(crate) fn tell(self, news: News) -> Option<Wakeup> {
        let Teller { shared, worker, guest } = self;
        shared.tell(worker, guest, news).then(|| shared.wakeup(worker))
    }
}
