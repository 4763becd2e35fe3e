//! How much may be on its way in: room that was reserved and is not yet a key's value, whether its bytes are
//! being fetched or its pieces are still to come.
//!
//! All clients have one budget, and each at most half of it, so that no client that stands still keeps others from
//! writing. Who has nothing on its way may always begin one value, however long; so nothing waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What all clients together may have on its way.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    used: AtomicU64,
    refused: AtomicU64,
}

/// One client's part.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    used: AtomicU64,
}

/// Bytes on their way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    share: Arc<Share>,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Self {
        Budget { most, used: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// How many bytes may be on their way at once.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// How many are.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How often somebody was told to wait.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// A part for a client.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share { budget: self.clone(), used: AtomicU64::new(0) })
    }
}

impl Share {
    /// Takes so many bytes; `None`: not now.
    pub(crate) fn claim(self: &Arc<Self>, bytes: u64) -> Option<Claim> {
        let budget = &*self.budget;
        let claimed = take(&self.used, bytes, budget.most / 2).is_some_and(|()| {
            let all = take(&budget.used, bytes, budget.most);
            if all.is_none() {
                self.used.fetch_sub(bytes, Relaxed);
            }
            all.is_some()
        });
        if !claimed {
            budget.refused.fetch_add(1, Relaxed);
        }
        claimed.then(|| Claim { share: self.clone(), bytes })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.bytes, Relaxed);
        self.share.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// Adds, unless there is something already and it would become too much.
fn take(used: &AtomicU64, bytes: u64, most: u64) -> Option<()> {
    let more = |now: u64| now.checked_add(bytes).filter(|then| now == 0 || *then <= most);
    used.fetch_update(Relaxed, Relaxed, more).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_half_and_all_have_all() {
        let budget = Arc::new(Budget::new(100));
        let [one, two, three] = [0; 3].map(|_| budget.share());
        let first = one.claim(30).unwrap();
        assert!(one.claim(21).is_none(), "more than half");
        let _second = one.claim(20).unwrap();
        let _third = two.claim(50).unwrap();
        assert!(three.claim(1).is_none(), "more than all");
        assert_eq!((budget.used(), budget.refused()), (100, 2));
        drop(first);
        let _fourth = three.claim(30).unwrap();
        assert_eq!(budget.used(), 100);
    }

    #[test]
    fn who_has_nothing_may_begin_one_of_any_length() {
        let budget = Arc::new(Budget::new(100));
        let share = budget.share();
        let long = share.claim(1000).unwrap();
        assert!(share.claim(1).is_none());
        drop(long);
        assert!(share.claim(60).is_some(), "alone, also more than half");
        assert_eq!(budget.used(), 0);
    }
}
