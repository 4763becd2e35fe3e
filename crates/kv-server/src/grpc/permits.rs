//! Limits the number of calls, in total and per identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Permits for calls in flight. One identity has at most three quarters of them.
pub(super) struct Permits {
    all: Arc<Semaphore>,
    max: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// A permit, released on drop.
pub(super) struct Permit {
    permits: Arc<Permits>,
    identity: String,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Permits {
    pub(super) fn new(max: usize) -> Self {
        Permits { all: Arc::new(Semaphore::new(max)), max, taken: Mutex::default() }
    }

    /// Waits for a permit, up to a limit.
    pub(super) async fn take(self: &Arc<Self>, identity: &str, limit: Duration) -> Option<Permit> {
        let mut permit = self.count(identity)?;
        let acquired = timeout(limit, self.all.clone().acquire_owned()).await;
        permit._permit = Some(acquired.ok()?.ok()?);
        Some(permit)
    }

    /// Waits until all permits are free.
    pub(super) async fn all_free(&self) {
        let _ = self.all.acquire_many(self.max as u32).await;
    }

    fn count(self: &Arc<Self>, identity: &str) -> Option<Permit> {
        let mut taken = self.lock();
        let count = taken.entry(identity.to_owned()).or_default();
        if *count >= self.max / 4 * 3 {
            return None;
        }
        *count += 1;
        Some(Permit { permits: self.clone(), identity: identity.to_owned(), _permit: None })
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
        let mut held = Vec::new();
        while let Some(permit) = permits.take("many", Duration::ZERO).await {
            held.push(permit);
        }
        assert_eq!(held.len(), 3);
        let other = permits.take("other", Duration::ZERO).await;
        assert!(other.is_some() && permits.take("third", Duration::ZERO).await.is_none());
        drop((held, other));
        assert!(permits.lock().is_empty());
        assert!(permits.take("many", Duration::ZERO).await.is_some());
    }
}
