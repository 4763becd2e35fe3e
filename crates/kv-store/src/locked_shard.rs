//! A shard with its lock, and values that can be read without it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::Timestamp;
use crate::shard::Shard;

/// A shard with its lock. Two of them share no cache line, nor a pair of lines that is prefetched together.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LockedShard {
    shard: Mutex<Shard>,
    /// The earliest expiry; `u64::MAX`: none.
    earliest: AtomicU64,
    pinned_bytes: AtomicU64,
}

/// A locked shard. The values that are read without the lock are updated on drop.
pub(crate) struct ShardGuard<'s> {
    owner: &'s LockedShard,
    shard: MutexGuard<'s, Shard>,
}

impl LockedShard {
    pub(crate) fn new(shard: Shard) -> LockedShard {
        LockedShard {
            shard: Mutex::new(shard),
            earliest: AtomicU64::new(u64::MAX),
            pinned_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> ShardGuard<'_> {
        let shard = self.shard.lock().expect("no thread panics while it holds a shard");
        ShardGuard { owner: self, shard }
    }

    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        let earliest = self.earliest.load(Ordering::SeqCst);
        (earliest != u64::MAX).then_some(Timestamp(earliest))
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }
}

impl Deref for ShardGuard<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for ShardGuard<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for ShardGuard<'_> {
    fn drop(&mut self) {
        let earliest = self.shard.first_expiry().map_or(u64::MAX, |(when, _)| when.0);
        // Sequentially consistent, since other threads decide by it that nothing has expired. The store is
        // expensive, and rarely needed.
        if self.owner.earliest.load(Ordering::Relaxed) != earliest {
            self.owner.earliest.store(earliest, Ordering::SeqCst);
        }
        self.owner.pinned_bytes.store(self.shard.pinned_bytes(), Ordering::Relaxed);
    }
}
