//! The store: keys, values, and who may read or replace them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::pool::{Block, Pool};
use crate::shard::{Found, Hashing, Shard, Value};
use crate::shard_slot::ShardSlot;
use crate::{
    Committed, Condition, Facts, Key, Moment, Pin, Pinned, Refused, Reservation, Settings, Usage,
    WhenFull,
};

/// Keys and the ranges of the pool where their values lie. All methods may be called from many
/// threads at once.
///
/// A thread holds at most one lock, a shard's or the pool's. So nothing can wait in a circle, and
/// the pool is never waited for under the lock of a shard. What it costs: a block that left the
/// index is for a moment in neither.
#[derive(Debug)]
pub struct Store {
    pub(crate) slots: Box<[ShardSlot]>,
    pub(crate) when_full: WhenFull,
    /// How much memory the index of one shard may take.
    max_index: u64,
    hashing: Hashing,
    pool: Mutex<Pool>,
    pub(crate) shared: Shared,
}

/// What all threads write. It lies apart from what they only read, which would else leave their
/// caches with every write.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shared {
    next_version: AtomicU64,
    pub(crate) reserved_bytes: AtomicU64,
    /// Whose turn it is to evict.
    pub(crate) turn: AtomicUsize,
    /// No value expires before.
    pub(crate) quiet_until: AtomicU64,
}

impl Store {
    /// An empty store.
    pub fn new(settings: Settings) -> Store {
        let hashing = Hashing::new(settings.seed);
        let slot = |_| ShardSlot::new(Shard::new(hashing.clone()));
        Store {
            slots: (0..settings.shard_count()).map(slot).collect(),
            when_full: settings.when_full,
            max_index: settings.index_bytes / settings.shard_count() as u64,
            hashing,
            pool: Mutex::new(Pool::new(settings.pool_bytes)),
            shared: Shared {
                next_version: AtomicU64::new(settings.first_version),
                reserved_bytes: AtomicU64::new(0),
                turn: AtomicUsize::new(0),
                quiet_until: AtomicU64::new(u64::MAX),
            },
        }
    }

    /// The value of a key, held for reading. A value that has expired is removed instead.
    pub fn pin(&self, key: Key<'_>, now: Moment) -> Option<Pinned> {
        let (hash, slot) = self.place(key);
        let mut shard = self.slots[slot].enter();
        let spent = match shard.look(hash, key, now) {
            Found::Live(id) => {
                let (facts, ranges) = (shard.facts(id), shard.pin(id));
                let pin = Pin { slot: slot as u32, id, version: facts.version };
                return Some(Pinned { pin, facts, ranges });
            }
            Found::Due(id) => shard.expire(id),
            Found::Nothing => None,
        };
        shard.miss();
        drop(shard);
        self.give(spent);
        None
    }

    /// What is known of a key's value, without a trace: it counts as no use of the value.
    pub fn stat(&self, key: Key<'_>, now: Moment) -> Option<Facts> {
        let (hash, slot) = self.place(key);
        let shard = self.slots[slot].enter();
        match shard.look(hash, key, now) {
            Found::Live(id) => Some(shard.facts(id)),
            Found::Due(_) | Found::Nothing => None,
        }
    }

    /// Gives a value back. If it was replaced or removed meanwhile, the last pin frees its memory.
    ///
    /// # Panics
    ///
    /// May panic if the pin is another store's.
    pub fn unpin(&self, pin: Pin) {
        let spent = self.slots[pin.slot as usize].enter().unpin(pin.id, pin.version);
        self.give(spent);
    }

    /// Makes a reservation the value of a key, if the condition holds; else nothing changes, and
    /// the reservation's memory is free again. Readers see the old value or the new one.
    pub fn commit(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        expires: Option<Moment>,
        condition: Condition,
        now: Moment,
    ) -> Result<Committed, Refused> {
        self.put(key, reservation, expires, (condition, None), now)
    }

    /// As [`Store::commit`], whatever was there, under a version that was [drawn](Store::draw_version) before: for
    /// who had to write it down first. Where the key has that version already nothing changes, since pins go by it.
    pub fn settle(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        version: u64,
        expires: Option<Moment>,
        now: Moment,
    ) -> Result<Committed, Refused> {
        self.put(key, reservation, expires, (Condition::Always, Some(version)), now)
    }

    /// A version that no other value has.
    pub fn draw_version(&self) -> u64 {
        self.shared.next_version.fetch_add(1, Ordering::Relaxed)
    }

    fn put(
        &self,
        key: Key<'_>,
        reservation: Reservation,
        expires: Option<Moment>,
        (condition, drawn): (Condition, Option<u64>),
        now: Moment,
    ) -> Result<Committed, Refused> {
        let block = self.reserved(reservation);
        let (hash, slot) = self.place(key);
        let mut shard = self.slots[slot].enter();
        let found = shard.look(hash, key, now);
        if let Err(refused) = condition.check(shard.version(found)) {
            drop(shard);
            self.give(Some(block));
            return Err(refused);
        }
        if let Some(version) = drawn
            && shard.version(found) == Some(version)
        {
            drop(shard);
            self.give(Some(block));
            return Ok(Committed { version, replaced: true });
        }
        let mut others = Vec::new();
        if found == Found::Nothing && !self.make_place(&mut shard, now, &mut others) {
            drop(shard);
            self.give(Some(block));
            return Err(Refused::IndexFull);
        }
        // Drawn under the lock, so that the versions of a key rise in the order of its commits.
        let version = drawn.unwrap_or_else(|| self.draw_version());
        let spent = shard.put(found, hash, key, Value { block, version, expires });
        drop(shard);
        self.give(spent);
        others.into_iter().for_each(|block| self.give(Some(block)));
        self.note_expiry(expires);
        Ok(Committed { version, replaced: matches!(found, Found::Live(_)) })
    }

    /// Gives the memory of a reservation back.
    pub fn cancel(&self, reservation: Reservation) {
        let block = self.reserved(reservation);
        self.give(Some(block));
    }

    /// Removes a key, if the condition holds. Says which version it had, or `None` where there was
    /// no such key.
    pub fn delete(
        &self,
        key: Key<'_>,
        condition: Condition,
        now: Moment,
    ) -> Result<Option<u64>, Refused> {
        let (hash, slot) = self.place(key);
        let mut shard = self.slots[slot].enter();
        let found = shard.look(hash, key, now);
        let version = shard.version(found);
        condition.check(version)?;
        let spent = match found {
            Found::Live(id) => shard.delete(id),
            Found::Due(id) => shard.expire(id),
            Found::Nothing => None,
        };
        drop(shard);
        self.give(spent);
        Ok(version)
    }

    /// What is held and was done.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.slots.iter().for_each(|slot| slot.enter().count(&mut usage));
        usage.index_bytes += size_of_val(&*self.slots) as u64;
        usage.reserved_bytes = self.shared.reserved_bytes.load(Ordering::Relaxed);
        let pool = self.pool();
        usage.free_bytes = pool.free_bytes();
        usage.used_bytes = pool.bytes() - pool.free_bytes();
        usage.largest_free = pool.largest_free();
        usage.index_bytes += pool.heap() as u64;
        usage
    }

    /// Removes entries until the shard's index has room for one more; `false` if none may go.
    fn make_place(&self, shard: &mut Shard, now: Moment, spent: &mut Vec<Block>) -> bool {
        while shard.weight() >= self.max_index {
            let due = shard.first_alarm().filter(|(when, _)| *when <= now);
            let gone = match (due, self.when_full) {
                (Some((_, id)), _) => shard.expire(id),
                (None, WhenFull::Evict) => shard.evict(),
                (None, WhenFull::Refuse) => None,
            };
            match gone {
                Some(block) => spent.push(block),
                None if due.is_none() => return false,
                None => {}
            }
        }
        true
    }

    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().expect("no thread panics while it holds the pool")
    }

    /// Gives memory back to the pool. No lock of a shard is held here.
    pub(crate) fn give(&self, block: Option<Block>) {
        match block {
            None | Some(Block::Empty) => {}
            Some(block) => self.pool().give(block),
        }
    }

    /// The hash of a key, and the slot that follows from it. The index uses the highest and the
    /// lowest bits of the hash, so the slot comes from those between.
    fn place(&self, key: Key<'_>) -> (u64, usize) {
        let hash = self.hashing.of(key.as_bytes());
        (hash, (hash >> 32) as usize & (self.slots.len() - 1))
    }

    /// The block of a reservation that ends here.
    fn reserved(&self, reservation: Reservation) -> Block {
        self.shared.reserved_bytes.fetch_sub(reservation.length(), Ordering::Relaxed);
        reservation.block
    }
}
