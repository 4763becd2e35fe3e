//! Connections without an authenticated call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections without an authenticated call; the oldest are evicted when there are too many connections.
#[derive(Default)]
pub(super) struct Unauthenticated {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    last: u64,
    connections: BTreeMap<u64, Arc<Notify>>,
}

/// One of them, until it is dropped or authenticated.
pub(super) struct UnauthenticatedConnection {
    unauthenticated: Arc<Unauthenticated>,
    number: u64,
    evict: Arc<Notify>,
    authenticated: AtomicBool,
}

impl Unauthenticated {
    pub(super) fn add(self: &Arc<Self>) -> UnauthenticatedConnection {
        let mut list = self.lock();
        list.last += 1;
        let (number, evict) = (list.last, Arc::new(Notify::new()));
        list.connections.insert(number, evict.clone());
        UnauthenticatedConnection {
            unauthenticated: self.clone(),
            number,
            evict,
            authenticated: AtomicBool::new(false),
        }
    }

    /// Evicts the oldest; `false` if there is none.
    pub(super) fn evict_oldest(&self) -> bool {
        let oldest = self.lock().connections.pop_first();
        oldest.map(|(_, evict)| evict.notify_one()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnauthenticatedConnection {
    /// Marks it as authenticated; `false` if it was just evicted: then the call must not be started.
    pub(super) fn may_stay(&self) -> bool {
        let mut list = self.unauthenticated.lock();
        if list.connections.remove(&self.number).is_some() {
            self.authenticated.store(true, Relaxed);
        }
        self.authenticated.load(Relaxed)
    }

    /// Waits until it is evicted.
    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.unauthenticated.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_unauthenticated_connection_is_evicted() {
        let unauthenticated = Arc::new(Unauthenticated::default());
        let [known, first, second] = [(); 3].map(|()| unauthenticated.add());
        assert!(known.may_stay());
        assert!(unauthenticated.evict_oldest());
        assert!(known.may_stay() && !first.may_stay());
        first.evicted().await;
        drop(second);
        assert!(!unauthenticated.evict_oldest());
    }
}
