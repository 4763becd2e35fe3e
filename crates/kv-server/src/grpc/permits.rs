//! How many calls there may be: all together, and of one identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Seats for calls in flight. One identity has three quarters at most, so that others find one.
pub(super) struct Seats {
    all: Arc<Semaphore>,
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    identity: String,
    _place: Option<OwnedSemaphorePermit>,
}

impl Seats {
    pub(super) fn new(most: usize) -> Self {
        Seats { all: Arc::new(Semaphore::new(most)), most, taken: Mutex::default() }
    }

    /// Waits so long for a seat.
    pub(super) async fn take(self: &Arc<Self>, identity: &str, patience: Duration) -> Option<Seat> {
        let mut seat = self.count(identity)?;
        let place = timeout(patience, self.all.clone().acquire_owned()).await;
        seat._place = Some(place.ok()?.ok()?);
        Some(seat)
    }

    /// Waits until nobody sits.
    pub(super) async fn empty(&self) {
        let _ = self.all.acquire_many(self.most as u32).await;
    }

    fn count(self: &Arc<Self>, identity: &str) -> Option<Seat> {
        let mut taken = self.lock();
        let count = taken.entry(identity.to_owned()).or_default();
        if *count >= self.most / 4 * 3 {
            return None;
        }
        *count += 1;
        Some(Seat { seats: self.clone(), identity: identity.to_owned(), _place: None })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
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
    async fn one_identity_leaves_seats_for_others() {
        let seats = Arc::new(Seats::new(4));
        let mut sitting = Vec::new();
        while let Some(seat) = seats.take("many", Duration::ZERO).await {
            sitting.push(seat);
        }
        assert_eq!(sitting.len(), 3);
        let other = seats.take("other", Duration::ZERO).await;
        assert!(other.is_some() && seats.take("third", Duration::ZERO).await.is_none());
        drop((sitting, other));
        assert!(seats.lock().is_empty());
        assert!(seats.take("many", Duration::ZERO).await.is_some());
    }
}
