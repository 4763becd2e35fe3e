//! Making room: reservations, eviction and expiry.

use std::sync::atomic::Ordering;

use crate::pool::{Block, Lack};
use crate::{Moment, NoRoom, Reservation, Store, WhenFull};

impl Store {
    /// Memory for a value of this length. Where none is free, values that have expired go first,
    /// then, if that is allowed, those that nobody read of late. A value that could not fit even
    /// so costs no other its place.
    pub fn reserve(&self, length: u64, now: Moment) -> Result<Reservation, NoRoom> {
        let mut effort = Effort::new(length, now);
        loop {
            match self.exchange(&mut effort.spent, length) {
                Ok(block) => {
                    self.shared.reserved_bytes.fetch_add(length, Ordering::Relaxed);
                    return Ok(Reservation { block });
                }
                Err(Lack::Ever { most }) => return Err(NoRoom::TooLong { most }),
                Err(Lack::Now { missing, scattered }) => {
                    effort.scattered = scattered;
                    if !self.make_room(missing, &mut effort) {
                        return Err(self.full(length));
                    }
                }
            }
        }
    }

    /// Removes up to `most` values whose time has come. Says how many.
    pub fn expire(&self, now: Moment, most: usize) -> usize {
        let mut spent = Vec::new();
        let count = self.remove_due(now, most, &mut spent);
        self.give_all(spent);
        count
    }

    /// When the first value expires.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.slots.iter().filter_map(|slot| slot.earliest()).min()
    }

    /// Removes all values. Those that are pinned free their memory when they are given back.
    pub fn clear(&self) {
        for slot in &self.slots {
            let blocks = slot.enter().clear();
            self.give_all(blocks);
        }
    }

    /// A value will expire then.
    pub(crate) fn note_expiry(&self, expires: Option<Moment>) {
        if let Some(Moment(when)) = expires {
            self.shared.quiet_until.fetch_min(when, Ordering::SeqCst);
        }
    }

    /// Gives blocks back and takes one, in one visit to the pool.
    fn exchange(&self, spent: &mut Vec<Block>, length: u64) -> Result<Block, Lack> {
        let mut pool = self.pool();
        spent.drain(..).for_each(|block| pool.give(block));
        pool.take(length)
    }

    /// Removes values whose blocks may make room, or says that none may go.
    fn make_room(&self, missing: u64, effort: &mut Effort) -> bool {
        if self.remove_due(effort.now, BATCH, &mut effort.spent) > 0 {
            return true;
        }
        if self.when_full == WhenFull::Refuse || !self.may_fit(effort.length) {
            return false;
        }
        (effort.is_vain() && self.sweep(effort)) || self.evict(missing, effort)
    }

    fn full(&self, needed: u64) -> NoRoom {
        NoRoom::Full { needed, free: self.pool().free_bytes(), pinned: self.pinned_bytes() }
    }

    /// Whether the value would fit if all were evicted that can be. Short ones need so little that
    /// it is not worth asking.
    fn may_fit(&self, length: u64) -> bool {
        if length <= SHORT {
            return true;
        }
        let stays = self.pinned_bytes() + self.shared.reserved_bytes.load(Ordering::Relaxed);
        length.saturating_add(stays) <= self.pool().bytes()
    }

    fn pinned_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.pinned_bytes()).sum()
    }

    /// Removes values whose time has come from all shards that have some.
    fn remove_due(&self, now: Moment, most: usize, spent: &mut Vec<Block>) -> usize {
        if self.shared.quiet_until.load(Ordering::SeqCst) > now.0 {
            return 0;
        }
        let mut count = 0;
        for slot in self.slots.iter().filter(|slot| slot.earliest().is_some_and(|due| due <= now)) {
            let mut shard = slot.enter();
            while count < most
                && let Some((when, id)) = shard.first_alarm()
                && when <= now
            {
                spent.extend(shard.expire(id));
                count += 1;
            }
        }
        // A commit shows its expiry at the slot before it notes it here. So what the first look
        // missed is noted after the store, unless the second look sees it.
        let next = || self.next_expiry().map_or(u64::MAX, |next| next.0);
        self.shared.quiet_until.store(next(), Ordering::SeqCst);
        self.shared.quiet_until.fetch_min(next(), Ordering::SeqCst);
        count
    }

    /// Evicts from one shard after the other, so that the oldest go first in all, until there may
    /// be room. The blocks come back together: a long value would never see enough of them if short
    /// ones of other threads took each as it came.
    fn evict(&self, missing: u64, effort: &mut Effort) -> bool {
        let (mut bytes, mut idle) = (0, 0);
        while bytes < missing && effort.spent.len() < BATCH && idle < self.slots.len() {
            let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed) & (self.slots.len() - 1);
            let Some(block) = self.slots[turn].enter().evict() else {
                idle += 1;
                continue;
            };
            idle = 0;
            bytes += block.length();
            effort.spent.push(block);
        }
        effort.evicted_bytes += bytes;
        !effort.spent.is_empty()
    }

    /// Empties the slabs that have the fewest values.
    fn sweep(&self, effort: &mut Effort) -> bool {
        effort.sweeps += 1;
        let sparse = self.pool().sparsest(effort.length);
        for slot in &self.slots {
            slot.enter().evict_from(&sparse, &mut effort.spent);
        }
        !effort.spent.is_empty()
    }

    fn give_all(&self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            let mut pool = self.pool();
            blocks.into_iter().for_each(|block| pool.give(block));
        }
    }
}

/// What was done so far to make room for a value.
struct Effort {
    length: u64,
    now: Moment,
    /// Blocks that left the index and are not in the pool yet.
    spent: Vec<Block>,
    evicted_bytes: u64,
    sweeps: u32,
    scattered: bool,
}

impl Effort {
    fn new(length: u64, now: Moment) -> Effort {
        let spent = Vec::new();
        Effort { length, now, spent, evicted_bytes: 0, sweeps: 0, scattered: false }
    }

    /// Whether it is of little use to evict more here and there, since what comes free is scattered
    /// over slabs of other lengths.
    fn is_vain(&self) -> bool {
        let enough = 2 * self.length + PATIENCE;
        self.sweeps < SWEEPS && (self.scattered || self.evicted_bytes > enough)
    }
}

/// How many bytes are evicted here and there before slabs are emptied.
const PATIENCE: u64 = 256 << 10;

/// How often slabs are emptied for one value: pinned values may keep them from it.
const SWEEPS: u32 = 4;

/// How many values go before the pool is asked again.
const BATCH: usize = 1024;

/// Up to this length nobody asks first whether there can be room.
const SHORT: u64 = 4096;
