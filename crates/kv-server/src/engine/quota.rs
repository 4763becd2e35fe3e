//! The quota of bytes in flight to the store: memory that is reserved and not yet a key's value, because its bytes are being
//! fetched, its pieces are still to come, or it is not durable yet.
//!
//! All clients share one quota, and each has at most half of it: a longer value counts as that much. A client with nothing
//! in flight may begin one value of any length where the quota allows it, and a short one, of up to a sixteenth of the quota,
//! whatever others have in flight. So no client that stops sending keeps others from writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What all clients together may have in flight.
#[derive(Debug)]
pub struct Quota {
    most: u64,
    used: AtomicU64,
    refused: AtomicU64,
}

/// One client's part.
#[derive(Debug)]
pub(crate) struct Share {
    quota: Arc<Quota>,
    used: AtomicU64,
}

/// Bytes in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    share: Arc<Share>,
    counted: u64,
}

impl Quota {
    pub(crate) fn new(most: u64) -> Self {
        Quota { most, used: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// How many bytes may be in flight at once.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// How many are.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How often a claim was refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// A part for a client.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share { quota: self.clone(), used: AtomicU64::new(0) })
    }
}

impl Share {
    /// Takes so many bytes; `None`: not now.
    pub(crate) fn claim(self: &Arc<Self>, bytes: u64) -> Option<Claim> {
        let quota = &*self.quota;
        let half = (quota.most / 2).max(1);
        let counted = bytes.min(half);
        let before = add(&self.used, counted, |before| before == 0 || before + counted <= half);
        let claimed = before.is_some_and(|before| {
            let short = before == 0 && bytes <= quota.most / 16;
            let all = add(&quota.used, counted, |used| short || used + counted <= quota.most);
            if all.is_none() {
                self.used.fetch_sub(counted, Relaxed);
            }
            all.is_some()
        });
        if !claimed {
            quota.refused.fetch_add(1, Relaxed);
        }
        claimed.then(|| Claim { share: self.clone(), counted })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.counted, Relaxed);
        self.share.quota.used.fetch_sub(self.counted, Relaxed);
    }
}

/// Adds where that is allowed; returns what there was before. Neither number comes near the end of its type.
fn add(used: &AtomicU64, bytes: u64, allowed: impl Fn(u64) -> bool) -> Option<u64> {
    used.fetch_update(Relaxed, Relaxed, |now| allowed(now).then(|| now + bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_half_and_all_have_all() {
        let quota = Arc::new(Quota::new(100));
        let [one, two, three] = [0; 3].map(|_| quota.share());
        let first = one.claim(30).unwrap();
        assert!(one.claim(21).is_none(), "more than half");
        let _second = one.claim(20).unwrap();
        let _third = two.claim(50).unwrap();
        assert!(three.claim(7).is_none(), "more than all");
        assert_eq!((quota.used(), quota.refused()), (100, 2));
        drop(first);
        let _fourth = three.claim(30).unwrap();
        assert_eq!(quota.used(), 100);
    }

    #[test]
    fn who_has_nothing_may_begin_one_of_any_length() {
        let quota = Arc::new(Quota::new(100));
        let share = quota.share();
        let long = share.claim(u64::MAX).unwrap();
        assert!(share.claim(1).is_none());
        drop(long);
        assert!(share.claim(60).is_some(), "alone, also more than half");
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn others_write_on_beside_who_stands_still() {
        let quota = Arc::new(Quota::new(160));
        let [one, two, three] = [0; 3].map(|_| quota.share());
        let _long = one.claim(1000).unwrap();
        let moderate = two.claim(80).unwrap();
        assert!(three.claim(11).is_none(), "two have all of it");
        let short = three.claim(10).unwrap();
        assert!(three.claim(1).is_none(), "one short one");
        drop((short, moderate));
        assert!(three.claim(80).is_some());
    }
}
