//! Reservation of memory, with eviction and expiry.

use std::sync::atomic::Ordering;

use crate::locked_shard::LockedShard;
use crate::pool::{AllocError, Block};
use crate::{Reservation, ReserveError, Store, Timestamp, WhenFull};

impl Store {
    /// Memory for a value of this length. If none is free, expired values are removed first,
    /// then, if allowed, values that were not read recently are evicted. Nothing is evicted for a value
    /// that could not fit anyway.
    pub fn reserve(&self, length: u64, now: Timestamp) -> Result<Reservation, ReserveError> {
        let spare = self.spare_slots.take(length);
        let block = spare.map_or_else(|| self.reserve_from_pool(length, now), Ok)?;
        self.spare_slots.begin_reservation(length);
        Ok(Reservation { block })
    }

    fn reserve_from_pool(&self, length: u64, now: Timestamp) -> Result<Block, ReserveError> {
        let mut state = ReserveState::new(length, now);
        loop {
            match self.release_and_allocate(&mut state) {
                Ok(block) => return Ok(block),
                Err(AllocError::TooLong { max }) => return Err(ReserveError::TooLong { max }),
                Err(AllocError::Full { missing, fragmented }) => {
                    state.fragmented = fragmented;
                    if !self.free_memory(missing, &mut state) {
                        return Err(self.full(length));
                    }
                }
            }
        }
    }

    /// Removes up to `max` expired values; returns their number.
    pub fn expire(&self, now: Timestamp, max: usize) -> usize {
        let mut freed = Vec::new();
        let count = self.remove_expired(now, max, &mut freed);
        self.release_to_pool(freed);
        count
    }

    /// The earliest expiry of all values.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.shards.iter().filter_map(|shard| shard.earliest()).min()
    }

    /// Removes all values. The memory of pinned values is freed when they are unpinned.
    pub fn clear(&self) {
        for shard in &self.shards {
            let blocks = shard.lock().clear();
            self.release_to_pool(blocks);
        }
    }

    /// Records the expiry of a new value.
    pub(crate) fn note_expiry(&self, expires: Option<Timestamp>) {
        if let Some(Timestamp(when)) = expires {
            self.shared.no_expiry_before.fetch_min(when, Ordering::SeqCst);
        }
    }

    /// Releases blocks and allocates one, and spare slots for the next values, under one lock of the pool.
    fn release_and_allocate(&self, state: &mut ReserveState) -> Result<Block, AllocError> {
        let mut pool = self.pool();
        state.freed.drain(..).for_each(|block| pool.release(block));
        let mut block = pool.allocate(state.length);
        if matches!(block, Err(AllocError::Full { .. })) && !self.keeps_spare_slots(state) {
            self.spare_slots.return_all(&mut pool);
            block = pool.allocate(state.length);
        }
        if block.is_ok() {
            self.spare_slots.fetch(state.length, &mut pool);
        }
        block
    }

    /// Whether values are evicted first: else each new value of a full cache would take the slots that all threads keep for theirs.
    fn keeps_spare_slots(&self, state: &ReserveState) -> bool {
        let evicts = self.when_full == WhenFull::Evict && !state.evicted_all;
        evicts && self.spare_slots.extra(state.length) > 0
    }

    /// Removes values to free memory; `false` if none may be removed.
    fn free_memory(&self, missing: u64, state: &mut ReserveState) -> bool {
        if self.remove_expired(state.now, MAX_BATCH, &mut state.freed) > 0 {
            return true;
        }
        if self.when_full == WhenFull::Refuse {
            return false;
        }
        // Several at once, since the next values need memory too.
        let missing = missing + self.spare_slots.extra(state.length) as u64 * state.length;
        let may_evict = self.can_fit(state.length);
        if may_evict && ((state.should_sweep() && self.sweep(state)) || self.evict(missing, state))
        {
            return true;
        }
        // Then the slots that threads keep are used, once.
        let kept = self.keeps_spare_slots(state);
        state.evicted_all = true;
        kept
    }

    fn full(&self, needed: u64) -> ReserveError {
        ReserveError::Full { needed, free: self.pool().free_bytes(), pinned: self.pinned_bytes() }
    }

    /// Whether the value would fit if everything that can be evicted were. Not checked for short values, which
    /// almost always fit.
    fn can_fit(&self, length: u64) -> bool {
        if length <= SHORT_BYTES {
            return true;
        }
        let unevictable = self.pinned_bytes() + self.spare_slots.reserved_bytes();
        length.saturating_add(unevictable) <= self.pool().bytes()
    }

    fn pinned_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.pinned_bytes()).sum()
    }

    /// Removes expired values from all shards that have some.
    fn remove_expired(&self, now: Timestamp, max: usize, freed: &mut Vec<Block>) -> usize {
        if self.shared.no_expiry_before.load(Ordering::SeqCst) > now.0 {
            return 0;
        }
        let mut count = 0;
        let is_due = |shard: &&LockedShard| shard.earliest().is_some_and(|due| due <= now);
        for shard in self.shards.iter().filter(is_due) {
            let mut shard = shard.lock();
            while count < max
                && let Some((when, id)) = shard.first_expiry()
                && when <= now
            {
                freed.extend(shard.expire(id));
                count += 1;
            }
        }
        // A commit publishes its expiry beside the lock before it lowers `no_expiry_before`. So an expiry that the
        // first read missed is either lowered after the store, or seen by the second read.
        let next = || self.next_expiry().map_or(u64::MAX, |next| next.0);
        self.shared.no_expiry_before.store(next(), Ordering::SeqCst);
        self.shared.no_expiry_before.fetch_min(next(), Ordering::SeqCst);
        count
    }

    /// Evicts from the shards in rotation, so that the oldest of all are evicted first, until enough may
    /// be free. The blocks are released together: otherwise short values of other threads could take each
    /// one, and a long value would never find enough.
    fn evict(&self, missing: u64, state: &mut ReserveState) -> bool {
        let (mut bytes, mut idle) = (0, 0);
        while bytes < missing && state.freed.len() < MAX_BATCH && idle < self.shards.len() {
            let next = self.shared.next_victim.fetch_add(1, Ordering::Relaxed);
            let Some(block) = self.shards[next & (self.shards.len() - 1)].lock().evict() else {
                idle += 1;
                continue;
            };
            idle = 0;
            bytes += block.length();
            state.freed.push(block);
        }
        state.evicted_bytes += bytes;
        !state.freed.is_empty()
    }

    /// Empties the slabs with the lowest fill.
    fn sweep(&self, state: &mut ReserveState) -> bool {
        state.sweeps += 1;
        let mut pool = self.pool();
        // A slab that has a spare slot does not become empty.
        self.spare_slots.return_all(&mut pool);
        let sparse = pool.sparsest(state.length);
        drop(pool);
        for shard in &self.shards {
            shard.lock().evict_from(&sparse, &mut state.freed);
        }
        !state.freed.is_empty()
    }
}

/// The state of one call of [`Store::reserve`].
struct ReserveState {
    length: u64,
    now: Timestamp,
    /// Blocks that were removed from the index and not yet released to the pool.
    freed: Vec<Block>,
    evicted_bytes: u64,
    sweeps: u32,
    fragmented: bool,
    /// Nothing more can be evicted.
    evicted_all: bool,
}

impl ReserveState {
    fn new(length: u64, now: Timestamp) -> ReserveState {
        ReserveState {
            length,
            now,
            freed: Vec::new(),
            evicted_bytes: 0,
            sweeps: 0,
            fragmented: false,
            evicted_all: false,
        }
    }

    /// Whether to empty whole slabs, since evicting in SIEVE order frees slots scattered over slabs of other
    /// lengths.
    fn should_sweep(&self) -> bool {
        let enough = 2 * self.length + SWEEP_AFTER_BYTES;
        self.sweeps < MAX_SWEEPS && (self.fragmented || self.evicted_bytes > enough)
    }
}

/// Bytes evicted in SIEVE order before slabs are emptied.
const SWEEP_AFTER_BYTES: u64 = 256 << 10;

/// Sweeps per value: pinned values may prevent slabs from becoming empty.
const MAX_SWEEPS: u32 = 4;

/// Values removed before the allocation is retried.
const MAX_BATCH: usize = 1024;

/// Up to this length it is not checked whether the value can fit.
const SHORT_BYTES: u64 = 4096;
