//! What comes back to workers from threads that do something for them.

use std::sync::Arc;

use crate::crew::Shared;
use crate::guest::News;

/// Tells one guest of one worker.
pub(crate) struct Teller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: usize,
    pub(crate) guest: u32,
}

impl Teller {
    pub(crate) fn tell(self, news: News) {
        self.shared.tell(self.worker, self.guest, news);
    }
}
