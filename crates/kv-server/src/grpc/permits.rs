//! How many calls there may be: all together, and of one identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Permits for calls in flight. One identity has three quarters at most, so that others find one.
pub(super) struct Permits {
    all: Arc<Semaphore>,
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them, until it is dropped.
pub(super) struct Permit {
    permits: Arc<Permits>,
    identity: String,
    _place: Option<OwnedSemaphorePermit>,
}

impl Permits {
    pub(super) fn new(most: usize) -> Self {
        Permits { all: Arc::new(Semaphore::new(most)), most, taken: Mutex::default() }
    }

    /// Waits so long for a permit.
    pub(super) async fn take(
        self: &Arc<Self>,
        identity: &str,
        patience: Duration,
    ) -> Option<Permit> {
        let mut permit = self.count(identity)?;
        let place = timeout(patience, self.all.clone().acquire_owned()).await;
        permit._place = Some(place.ok()?.ok()?);
        Some(permit)
    }

    /// Waits until all permits are free.
    pub(super) async fn empty(&self) {
        let _ = self.all.acquire_many(self.most as u32).await;
    }

    fn count(self: &Arc<Self>, identity: &str) -> Option<Permit> {
        let mut taken = self.lock();
        let count = taken.entry(identity.to_owned()).or_default();
        if *count >= self.most / 4 * 3 {
            return None;
        }
        *count += 1;
        Some(Permit { permits: self.clone(), identity: identity.to_owned(), _place: None })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.lock();
        if let Some(count) = taken.get_mut(&self.identity) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_identity_leaves_permits_for_others() {
        let permits = Arc::new(Permits::new(4));
        let mut sitting = Vec::new();
        while let Some(permit) = permits.take("many", Duration::ZERO).await {
            sitting.push(permit);
        }
        assert_eq!(sitting.len(), 3);
        let other = permits.take("other", Duration::ZERO).await;
        assert!(other.is_some() && permits.take("third", Duration::ZERO).await.is_none());
        drop((sitting, other));
        assert!(permits.lock().is_empty());
        assert!(permits.take("many", Duration::ZERO).await.is_some());
    }
}
