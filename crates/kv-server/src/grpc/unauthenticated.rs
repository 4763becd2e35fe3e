//! Connections of which no call was let in yet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The oldest first: they go when others need their places.
#[derive(Default)]
pub(super) struct Unauthenticated {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    last: u64,
    here: BTreeMap<u64, Arc<Notify>>,
}

/// One of them, until it is dropped or known.
pub(super) struct UnauthenticatedConnection {
    unauthenticated: Arc<Unauthenticated>,
    number: u64,
    leave: Arc<Notify>,
    known: AtomicBool,
}

impl Unauthenticated {
    pub(super) fn come(self: &Arc<Self>) -> UnauthenticatedConnection {
        let mut list = self.lock();
        list.last += 1;
        let (number, leave) = (list.last, Arc::new(Notify::new()));
        list.here.insert(number, leave.clone());
        UnauthenticatedConnection {
            unauthenticated: self.clone(),
            number,
            leave,
            known: AtomicBool::new(false),
        }
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

impl UnauthenticatedConnection {
    /// A call was let in: it may stay, unless its place was given to somebody else a moment ago. Nothing is to be
    /// begun for it then.
    pub(super) fn may_stay(&self) -> bool {
        let mut list = self.unauthenticated.lock();
        if list.here.remove(&self.number).is_some() {
            self.known.store(true, Relaxed);
        }
        self.known.load(Relaxed)
    }

    /// Returns when its place is needed.
    pub(super) async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.unauthenticated.lock().here.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_is_not_known_goes() {
        let unauthenticated = Arc::new(Unauthenticated::default());
        let [known, first, second] = [(); 3].map(|()| unauthenticated.come());
        assert!(known.may_stay());
        assert!(unauthenticated.send_one_away());
        assert!(known.may_stay() && !first.may_stay());
        first.sent_away().await;
        drop(second);
        assert!(!unauthenticated.send_one_away());
    }
}
