//! The quota of bytes in flight to the store: memory that is reserved and not yet committed, because its bytes are being
//! read, chunks are missing, or it is not durable yet.
//!
//! All clients share one quota, and each may use at most half of it: a longer value counts as half. A client with nothing
//! in flight may start one value of any length if the quota allows it, and a short one, of up to a sixteenth of the quota,
//! whatever others have in flight. So a stalled client does not keep others from writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that all clients together may have in flight.
#[derive(Debug)]
pub struct Quota {
    limit: u64,
    used: AtomicU64,
    refused: AtomicU64,
}

/// One client's part of the quota.
#[derive(Debug)]
pub(crate) struct Share {
    quota: Arc<Quota>,
    used: AtomicU64,
}

/// Claimed bytes, released on drop.
#[derive(Debug)]
pub(crate) struct Claim {
    share: Arc<Share>,
    counted: u64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Self {
        Quota { limit, used: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes in flight.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The number of refused claims.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// A new client's part.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share { quota: self.clone(), used: AtomicU64::new(0) })
    }
}

impl Share {
    /// Claims bytes; `None`: the quota is exhausted.
    pub(crate) fn claim(self: &Arc<Self>, bytes: u64) -> Option<Claim> {
        let quota = &*self.quota;
        let half = (quota.limit / 2).max(1);
        let counted = bytes.min(half);
        let before = add(&self.used, counted, |before| before == 0 || before + counted <= half);
        let claimed = before.is_some_and(|before| {
            let short = before == 0 && bytes <= quota.limit / 16;
            let all = add(&quota.used, counted, |used| short || used + counted <= quota.limit);
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

/// Adds if that is allowed; returns the value before. The sum does not overflow.
fn add(used: &AtomicU64, bytes: u64, allowed: impl Fn(u64) -> bool) -> Option<u64> {
    used.fetch_update(Relaxed, Relaxed, |now| allowed(now).then(|| now + bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_may_use_half_of_the_quota() {
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
    fn an_idle_client_may_start_a_value_of_any_length() {
        let quota = Arc::new(Quota::new(100));
        let share = quota.share();
        let long = share.claim(u64::MAX).unwrap();
        assert!(share.claim(1).is_none());
        drop(long);
        assert!(share.claim(60).is_some(), "more than half, if it is the only one");
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn a_stalled_client_does_not_block_others() {
        let quota = Arc::new(Quota::new(160));
        let [one, two, three] = [0; 3].map(|_| quota.share());
        let _long = one.claim(1000).unwrap();
        let moderate = two.claim(80).unwrap();
        assert!(three.claim(11).is_none(), "two clients use all of it");
        let short = three.claim(10).unwrap();
        assert!(three.claim(1).is_none(), "only one short value");
        drop((short, moderate));
        assert!(three.claim(80).is_some());
    }
}
