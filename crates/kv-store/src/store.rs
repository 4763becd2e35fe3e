//! The store: the operations on keys.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::locked_shard::LockedShard;
use crate::pool::{Block, Pool};
use crate::shard::{Found, Hashing, Shard, Value};
use crate::spare_slots::SpareSlots;
use crate::{
    Committed, Condition, Key, Metadata, Pin, Pinned, Reservation, Settings, Timestamp, Usage,
    WhenFull, WriteError,
};

/// Maps keys to ranges of the pool. All methods may be called by many
/// threads concurrently.
///
/// A thread holds at most one lock, a shard's or the pool's, and while it holds the pool's perhaps that of spare slots. So there
/// is no deadlock, and no thread waits for the pool while it holds a shard. The price: a block that left the
/// index is briefly in neither.
#[derive(Debug)]
pub struct Store {
    pub(crate) shards: Box<[LockedShard]>,
    pub(crate) when_full: WhenFull,
    /// The memory limit of one shard's index.
    max_index_bytes: u64,
    hashing: Hashing,
    pool: Mutex<Pool>,
    pub(crate) spare_slots: SpareSlots,
    pub(crate) shared: Shared,
}

/// State that all threads write. It has its own cache lines, so that writes do not invalidate the state that is
/// only read.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shared {
    next_version: AtomicU64,
    /// The shard to evict from next.
    pub(crate) next_victim: AtomicUsize,
    /// No value expires before this time.
    pub(crate) no_expiry_before: AtomicU64,
}

impl Store {
    /// An empty store.
    pub fn new(settings: Settings) -> Store {
        let hashing = Hashing::new(settings.seed);
        let shard = |_| LockedShard::new(Shard::new(hashing.clone()));
        Store {
            shards: (0..settings.shard_count()).map(shard).collect(),
            when_full: settings.when_full,
            max_index_bytes: settings.index_bytes / settings.shard_count() as u64,
            hashing,
            pool: Mutex::new(Pool::new(settings.pool_bytes)),
            spare_slots: SpareSlots::new(settings.pool_bytes),
            shared: Shared {
                next_version: AtomicU64::new(settings.first_version),
                next_victim: AtomicUsize::new(0),
                no_expiry_before: AtomicU64::new(u64::MAX),
            },
        }
    }

    /// Pins the value of a key, to be read. An expired value is removed instead.
    pub fn pin(&self, key: Key<'_>, now: Timestamp) -> Option<Pinned> {
        let (hash, number) = self.locate(key);
        let mut shard = self.shards[number].lock();
        let freed = match shard.find(hash, key, now) {
            Found::Live(id) => {
                let (metadata, ranges) = (shard.metadata(id), shard.pin(id));
                let pin = Pin { shard: number as u32, id, version: metadata.version };
                return Some(Pinned { pin, metadata, ranges });
            }
            Found::Expired(id) => shard.expire(id),
            Found::Absent => None,
        };
        shard.miss();
        drop(shard);
        self.release(freed);
        None
    }

    /// The metadata of a key's value. Does not count as a read of the value.
    pub fn stat(&self, key: Key<'_>, now: Timestamp) -> Option<Metadata> {
        let (hash, number) = self.locate(key);
        let shard = self.shards[number].lock();
        match shard.find(hash, key, now) {
            Found::Live(id) => Some(shard.metadata(id)),
            Found::Expired(_) | Found::Absent => None,
        }
    }

    /// Unpins a value. If it was replaced or removed, the last unpin frees its memory.
    ///
    /// # Panics
    ///
    /// May panic if the pin is of another store.
    pub fn unpin(&self, pin: Pin) {
        let freed = self.shards[pin.shard as usize].lock().unpin(pin.id, pin.version);
        self.release(freed);
    }

    /// Commits a reservation as the value of a key, if the condition is met; else nothing changes, and
    /// the reservation is cancelled. Readers see the old value or the new one.
    pub fn commit(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        expires: Option<Timestamp>,
        condition: Condition,
        now: Timestamp,
    ) -> Result<Committed, WriteError> {
        self.put(key, reservation, expires, (condition, None), now)
    }

    /// Like [`Store::commit`], without condition, under a version that was
    /// [allocated](Store::allocate_version) before: for callers that must persist it first. If the key
    /// already has that version nothing changes, since pins refer to it.
    pub fn commit_version(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        version: u64,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Committed, WriteError> {
        self.put(key, reservation, expires, (Condition::Always, Some(version)), now)
    }

    /// A version that no other value has.
    pub fn allocate_version(&self) -> u64 {
        self.shared.next_version.fetch_add(1, Ordering::Relaxed)
    }

    fn put(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        expires: Option<Timestamp>,
        (condition, allocated): (Condition, Option<u64>),
        now: Timestamp,
    ) -> Result<Committed, WriteError> {
        let block = self.end_reservation(reservation);
        let (hash, number) = self.locate(key);
        let mut shard = self.shards[number].lock();
        let found = shard.find(hash, key, now);
        if let Err(refused) = condition.check(shard.version(found)) {
            drop(shard);
            self.release(Some(block));
            return Err(refused);
        }
        if let Some(version) = allocated
            && shard.version(found) == Some(version)
        {
            drop(shard);
            self.release(Some(block));
            return Ok(Committed { version, replaced: true });
        }
        let mut evicted = Vec::new();
        if found == Found::Absent && !self.make_index_space(&mut shard, now, &mut evicted) {
            drop(shard);
            self.release(Some(block));
            return Err(WriteError::IndexFull);
        }
        // Allocated under the lock, so that the versions of a key increase in the order of its commits.
        let version = allocated.unwrap_or_else(|| self.allocate_version());
        let freed = shard.put(found, hash, key, Value { block, version, expires });
        drop(shard);
        self.release(freed);
        evicted.into_iter().for_each(|block| self.release(Some(block)));
        self.note_expiry(expires);
        Ok(Committed { version, replaced: matches!(found, Found::Live(_)) })
    }

    /// Frees the memory of a reservation.
    pub fn cancel(&self, reservation: Reservation) {
        let block = self.end_reservation(reservation);
        self.release(Some(block));
    }

    /// Removes a key, if the condition is met. Returns its version, or `None` if there was
    /// no such key.
    pub fn delete(
        &self,
        key: Key<'_>,
        condition: Condition,
        now: Timestamp,
    ) -> Result<Option<u64>, WriteError> {
        let (hash, number) = self.locate(key);
        let mut shard = self.shards[number].lock();
        let found = shard.find(hash, key, now);
        let version = shard.version(found);
        condition.check(version)?;
        let freed = match found {
            Found::Live(id) => shard.delete(id),
            Found::Expired(id) => shard.expire(id),
            Found::Absent => None,
        };
        drop(shard);
        self.release(freed);
        Ok(version)
    }

    /// The current usage and counters.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.shards.iter().for_each(|shard| shard.lock().count(&mut usage));
        usage.index_bytes += size_of_val(&*self.shards) as u64;
        usage.reserved_bytes = self.spare_slots.reserved_bytes();
        let mut pool = self.pool();
        self.spare_slots.return_all(&mut pool);
        usage.free_bytes = pool.free_bytes();
        usage.used_bytes = pool.bytes() - pool.free_bytes();
        usage.largest_free = pool.largest_free();
        usage.index_bytes += pool.heap() as u64;
        usage
    }

    /// Removes entries until the shard's index has space for one more; `false` if none may be removed.
    fn make_index_space(&self, shard: &mut Shard, now: Timestamp, freed: &mut Vec<Block>) -> bool {
        while shard.estimated_bytes() >= self.max_index_bytes {
            let expired = shard.first_expiry().filter(|(when, _)| *when <= now);
            let removed = match (expired, self.when_full) {
                (Some((_, id)), _) => shard.expire(id),
                (None, WhenFull::Evict) => shard.evict(),
                (None, WhenFull::Refuse) => None,
            };
            match removed {
                Some(block) => freed.push(block),
                None if expired.is_none() => return false,
                None => {}
            }
        }
        true
    }

    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().expect("no thread panics while it holds the pool")
    }

    /// Releases memory. The caller holds no lock of a shard.
    pub(crate) fn release(&self, block: Option<Block>) {
        let kept = |block| self.spare_slots.keep(block);
        match block.and_then(kept) {
            None | Some(Block::Empty) => {}
            Some(block) => {
                let mut pool = self.pool();
                let is_slot = block.is_slot();
                pool.release(block);
                if is_slot {
                    self.spare_slots.make_space(&mut pool);
                }
            }
        }
    }

    pub(crate) fn release_to_pool(&self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            let mut pool = self.pool();
            blocks.into_iter().for_each(|block| pool.release(block));
        }
    }

    /// The hash of a key, and its shard. The hash table uses the highest and the
    /// lowest bits of the hash, so the shard is chosen by those between.
    fn locate(&self, key: Key<'_>) -> (u64, usize) {
        let hash = self.hashing.of(key.as_bytes());
        (hash, (hash >> 32) as usize & (self.shards.len() - 1))
    }

    /// Ends a reservation; returns its block.
    fn end_reservation(&self, reservation: Reservation) -> Block {
        self.spare_slots.end_reservation(reservation.length());
        reservation.block
    }
}
