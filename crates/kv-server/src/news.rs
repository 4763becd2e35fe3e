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
    /// The worker sees it when it looks; if it may sleep there is a bell.
    pub(crate) fn tell(self, news: News) -> Option<Bell> {
        let Teller { shared, worker, guest } = self;
        shared.tell(worker, guest, news).then_some(Bell { shared, worker })
    }
}

/// Wakes a worker that has news. Whoever has news of many things rings when all are told: waking costs more than
/// telling.
#[must_use]
pub(crate) struct Bell {
    shared: Arc<Shared>,
    worker: usize,
}

impl Bell {
    /// Each worker once.
    pub(crate) fn ring(bells: impl IntoIterator<Item = Bell>) {
        let mut bells: Vec<Bell> = bells.into_iter().collect();
        let whose = |bell: &mut Bell| (Arc::as_ptr(&bell.shared), bell.worker);
        bells.sort_by_key(|bell| (Arc::as_ptr(&bell.shared), bell.worker));
        bells.dedup_by_key(whose);
        bells.iter().for_each(|bell| bell.shared.ring(bell.worker));
    }
}
