//! Connections of which no call was let in yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The oldest first: they go when others need their places.
#[derive(Default)]
pub(super) struct Strangers {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    last: u64,
    here: BTreeMap<u64, Arc<Notify>>,
}

/// One of them, until it is dropped or known.
pub(super) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    leave: Arc<Notify>,
}

impl Strangers {
    pub(super) fn come(self: &Arc<Self>) -> Stranger {
        let mut list = self.lock();
        list.last += 1;
        let (number, leave) = (list.last, Arc::new(Notify::new()));
        list.here.insert(number, leave.clone());
        Stranger { strangers: self.clone(), number, leave }
    }

    /// Whether there was one to be sent away.
    pub(super) fn send_one_away(&self) -> bool {
        let oldest = self.lock().here.pop_first();
        oldest.map(|(_, leave)| leave.notify_one()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// A call was let in: it may stay.
    pub(super) fn is_known(&self) {
        self.strangers.lock().here.remove(&self.number);
    }

    /// Returns when its place is needed.
    pub(super) async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_known();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_is_not_known_goes() {
        let strangers = Arc::new(Strangers::default());
        let [known, first, second] = [(); 3].map(|()| strangers.come());
        known.is_known();
        assert!(strangers.send_one_away());
        first.sent_away().await;
        drop(second);
        assert!(!strangers.send_one_away());
    }
}
