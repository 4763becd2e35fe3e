//! Making room: reservations, eviction and expiry.

use std::sync::atomic::Ordering;

use crate::pool::{Block, Lack};
use crate::{Moment, NoRoom, Reservation, Store, WhenFull};

impl Store {
    /// Memory for a value of this length. Where none is free, values that have expired go first,
    /// then, if that is allowed, those that nobody read of late. A value that could not fit even
    /// so costs no other its place.
    pub fn reserve(&self, length: u64, now: Moment) -> Result<Reservation, NoRoom> {
        loop {
            let lack = self.pool().take(length);
            match lack {
                Ok(block) => {
                    self.reserved_bytes.fetch_add(length, Ordering::Relaxed);
                    return Ok(Reservation { block });
                }
                Err(Lack::Ever { most }) => return Err(NoRoom::TooLong { most }),
                Err(Lack::Now { missing }) => self.make_room(length, missing, now)?,
            }
        }
    }

    /// Removes up to `most` values whose time has come. Says how many.
    pub fn expire(&self, now: Moment, most: usize) -> usize {
        let mut blocks = Vec::new();
        let mut count = 0;
        for seat in &self.seats {
            if seat.earliest().is_none_or(|earliest| earliest > now) {
                continue;
            }
            let mut shard = seat.enter();
            while count < most
                && let Some((when, id)) = shard.first_alarm()
                && when <= now
            {
                blocks.extend(shard.expire(id));
                count += 1;
            }
        }
        self.give_all(blocks);
        count
    }

    /// When the first value expires.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.seats.iter().filter_map(|seat| seat.earliest()).min()
    }

    /// Removes all values. Those that are pinned free their memory when they are given back.
    pub fn clear(&self) {
        for seat in &self.seats {
            let blocks = seat.enter().clear();
            self.give_all(blocks);
        }
    }

    /// Brings some memory back to the pool, or says why there is none to bring.
    fn make_room(&self, length: u64, missing: u64, now: Moment) -> Result<(), NoRoom> {
        if self.expire(now, BATCH) > 0 {
            return Ok(());
        }
        let full = || NoRoom::Full {
            needed: length,
            free: self.pool().free_bytes(),
            pinned: self.pinned_bytes(),
        };
        if self.when_full == WhenFull::Refuse || !self.may_fit(length) || !self.evict(missing) {
            return Err(full());
        }
        Ok(())
    }

    /// Whether the value would fit if all were evicted that can be.
    fn may_fit(&self, length: u64) -> bool {
        let stays = self.pinned_bytes() + self.reserved_bytes.load(Ordering::Relaxed);
        length.saturating_add(stays) <= self.pool().bytes()
    }

    fn pinned_bytes(&self) -> u64 {
        self.seats.iter().map(|seat| seat.pinned_bytes()).sum()
    }

    /// Evicts from one shard after the other, so that the oldest go first in all, until there may
    /// be room. The blocks come back at once: a long value would never see enough of them if short
    /// ones of other threads took each as it came.
    fn evict(&self, missing: u64) -> bool {
        let mut blocks = Vec::new();
        let (mut bytes, mut idle) = (0, 0);
        while bytes < missing && blocks.len() < BATCH && idle < self.seats.len() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) & (self.seats.len() - 1);
            let Some(block) = self.seats[turn].enter().evict() else {
                idle += 1;
                continue;
            };
            idle = 0;
            bytes += block.length();
            blocks.push(block);
        }
        let found = !blocks.is_empty();
        self.give_all(blocks);
        found
    }

    fn give_all(&self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            let mut pool = self.pool();
            blocks.into_iter().for_each(|block| pool.give(block));
        }
    }
}

/// How many values go before the pool is asked again.
const BATCH: usize = 1024;
