//! A slot: a shard with its lock, and what may be read of it without.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::Moment;
use crate::shard::Shard;

/// A shard with its lock. Slots share no cache line, nor the pair of lines that is fetched at once.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ShardSlot {
    shard: Mutex<Shard>,
    /// When the first value expires; `u64::MAX` where none does.
    earliest: AtomicU64,
    pinned_bytes: AtomicU64,
}

/// A shard under its lock. What is read without it is brought up to date at the end.
pub(crate) struct ShardGuard<'s> {
    slot: &'s ShardSlot,
    shard: MutexGuard<'s, Shard>,
}

impl ShardSlot {
    pub(crate) fn new(shard: Shard) -> ShardSlot {
        ShardSlot {
            shard: Mutex::new(shard),
            earliest: AtomicU64::new(u64::MAX),
            pinned_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn enter(&self) -> ShardGuard<'_> {
        let shard = self.shard.lock().expect("no thread panics while it holds a shard");
        ShardGuard { slot: self, shard }
    }

    pub(crate) fn earliest(&self) -> Option<Moment> {
        let earliest = self.earliest.load(Ordering::SeqCst);
        (earliest != u64::MAX).then_some(Moment(earliest))
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
        let earliest = self.shard.first_alarm().map_or(u64::MAX, |(when, _)| when.0);
        // Sequentially consistent, since others decide by it that nothing is due; that is dear, and
        // rarely needed.
        if self.slot.earliest.load(Ordering::Relaxed) != earliest {
            self.slot.earliest.store(earliest, Ordering::SeqCst);
        }
        self.slot.pinned_bytes.store(self.shard.pinned_bytes(), Ordering::Relaxed);
    }
}
