//! A shard: the part of the index that one lock guards.
//!
//! It hands back blocks that nobody needs any more; whoever holds its lock gives them to the pool
//! once it is let go.

mod counts;
mod detached;
mod entries;
mod entry;
mod expiries;
mod hashing;
mod sieve;

use hashbrown::HashTable;

use crate::key::KeptKey;
use crate::pool::{Block, Sparse};
use crate::{Facts, Key, Moment, Ranges, Usage};

use counts::Counts;
use detached::Detached;
use entries::Entries;
use entry::Entry;
use expiries::Alarms;
pub(crate) use hashing::Hashing;
use sieve::Sieve;

/// Keys whose hash falls here, and their values.
#[derive(Debug)]
pub(crate) struct Shard {
    hashing: Hashing,
    /// Numbers of entries, by the hash of their keys.
    index: HashTable<u32>,
    entries: Entries,
    sieve: Sieve,
    alarms: Alarms,
    detached: Detached,
    counts: Counts,
}

/// What there is of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Live(u32),
    /// Its time has come, and it was not removed yet.
    Due(u32),
    Nothing,
}

/// A value about to be kept.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) block: Block,
    pub(crate) version: u64,
    pub(crate) expires: Option<Moment>,
}

impl Shard {
    pub(crate) fn new(hashing: Hashing) -> Shard {
        Shard {
            hashing,
            index: HashTable::new(),
            entries: Entries::new(),
            sieve: Sieve::new(),
            alarms: Alarms::new(),
            detached: Detached::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn look(&self, hash: u64, key: Key<'_>, now: Moment) -> Found {
        let entries = &self.entries;
        let same = |id: &u32| entries[*id].key.as_bytes() == key.as_bytes();
        match self.index.find(hash, same) {
            None => Found::Nothing,
            Some(&id) if self.is_due(id, now) => Found::Due(id),
            Some(&id) => Found::Live(id),
        }
    }

    /// The version of what was found, if it counts.
    pub(crate) fn version(&self, found: Found) -> Option<u64> {
        match found {
            Found::Live(id) => Some(self.entries[id].version),
            Found::Due(_) | Found::Nothing => None,
        }
    }

    pub(crate) fn facts(&self, id: u32) -> Facts {
        let entry = &self.entries[id];
        let expires = self.alarms.of(&self.entries, id);
        Facts { length: entry.block.length(), version: entry.version, expires }
    }

    /// Pins the current value of an entry.
    pub(crate) fn pin(&mut self, id: u32) -> Ranges {
        let entry = &mut self.entries[id];
        if entry.pin() == 0 {
            self.counts.pinned_entries += 1;
            self.counts.pinned_bytes += entry.block.length();
        }
        self.counts.pins += 1;
        self.counts.hits += 1;
        entry.block.ranges()
    }

    pub(crate) fn miss(&mut self) {
        self.counts.misses += 1;
    }

    /// Takes a pin back, from the entry if it still has that version.
    pub(crate) fn unpin(&mut self, id: u32, version: u64) -> Option<Block> {
        self.counts.pins -= 1;
        if self.entries.get(id).is_some_and(|entry| entry.version == version) {
            let entry = &mut self.entries[id];
            if entry.unpin() == 0 {
                self.counts.pinned_entries -= 1;
                self.counts.pinned_bytes -= entry.block.length();
            }
            return None;
        }
        let block = self.detached.unpin(version)?;
        self.counts.pinned_bytes -= block.length();
        Some(block)
    }

    /// Keeps a value under a key, which `found` was said of.
    pub(crate) fn put(
        &mut self,
        found: Found,
        hash: u64,
        key: Key<'_>,
        value: Value,
    ) -> Option<Block> {
        self.counts.puts += 1;
        self.counts.value_bytes += value.block.length();
        match found {
            Found::Nothing => {
                self.insert(hash, key, value);
                None
            }
            Found::Live(id) => self.replace(id, value),
            Found::Due(id) => {
                self.counts.expired += 1;
                self.replace(id, value)
            }
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Option<Block> {
        self.counts.deletes += 1;
        self.remove(id)
    }

    /// Removes an entry whose time has come.
    pub(crate) fn expire(&mut self, id: u32) -> Option<Block> {
        self.counts.expired += 1;
        self.remove(id)
    }

    /// Removes the entry that is worth least, if any may go.
    pub(crate) fn evict(&mut self) -> Option<Block> {
        if self.index.len() == self.counts.pinned_entries {
            return None;
        }
        let id = self.sieve.victim(&mut self.entries, self.index.len())?;
        self.counts.evicted += 1;
        self.remove(id)
    }

    /// Removes what lies in these slabs, unless readers have it.
    pub(crate) fn evict_from(&mut self, sparse: &Sparse, spent: &mut Vec<Block>) {
        for id in 0..self.entries.end() {
            let lies_there = |entry: &Entry| entry.pins() == 0 && sparse.has(&entry.block);
            if self.entries.get(id).is_some_and(lies_there) {
                self.counts.evicted += 1;
                spent.extend(self.remove(id));
            }
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) -> Vec<Block> {
        let all = 0..self.entries.end();
        all.filter_map(|id| self.entries.get(id).is_some().then(|| self.delete(id))?).collect()
    }

    /// The entry that expires first, and when.
    pub(crate) fn first_alarm(&self) -> Option<(Moment, u32)> {
        self.alarms.first()
    }

    /// The key and the facts of the entry with this number, unless there is none or it is due.
    pub(crate) fn show(&self, id: u32, now: Moment) -> Option<(&[u8], Facts)> {
        let entry = self.entries.get(id)?;
        (!self.is_due(id, now)).then(|| (entry.key.as_bytes(), self.facts(id)))
    }

    /// All numbers of entries are below this.
    pub(crate) fn end(&self) -> u32 {
        self.entries.end()
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.counts.pinned_bytes
    }

    /// Adds what is here to `usage`.
    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.keys += self.index.len() as u64;
        usage.value_bytes += self.counts.value_bytes;
        usage.pins += self.counts.pins;
        usage.pinned_bytes += self.counts.pinned_bytes;
        usage.detached += self.detached.len() as u64;
        usage.index_bytes += self.heap() as u64;
        usage.hits += self.counts.hits;
        usage.misses += self.counts.misses;
        usage.puts += self.counts.puts;
        usage.deletes += self.counts.deletes;
        usage.evicted += self.counts.evicted;
        usage.expired += self.counts.expired;
    }

    /// About how much memory the index takes: quick to tell, and the same whenever tables grow.
    pub(crate) fn weight(&self) -> u64 {
        (self.index.len() * ENTRY + self.counts.key_heap) as u64
    }

    fn heap(&self) -> usize {
        let tables = self.index.allocation_size() + self.detached.heap();
        tables + self.entries.heap() + self.alarms.heap() + self.counts.key_heap
    }

    fn is_due(&self, id: u32, now: Moment) -> bool {
        self.alarms.of(&self.entries, id).is_some_and(|expires| expires <= now)
    }

    fn insert(&mut self, hash: u64, key: Key<'_>, value: Value) {
        let key = KeptKey::new(key);
        self.counts.key_heap += key.heap();
        let id = self.entries.insert(Entry::new(key, value.block, value.version));
        let (entries, hashing) = (&self.entries, &self.hashing);
        let hash_of = |id: &u32| hashing.of(entries[*id].key.as_bytes());
        self.index.insert_unique(hash, id, hash_of);
        self.sieve.link(&mut self.entries, id);
        self.alarms.set(&mut self.entries, id, value.expires);
    }

    /// Another value for the same entry, whose number stays.
    fn replace(&mut self, id: u32, value: Value) -> Option<Block> {
        let (block, version, pins) = self.entries[id].replace(value.block, value.version);
        self.alarms.set(&mut self.entries, id, value.expires);
        self.retire(block, version, pins)
    }

    fn remove(&mut self, id: u32) -> Option<Block> {
        let hash = self.hashing.of(self.entries[id].key.as_bytes());
        let listed = self.index.find_entry(hash, |listed| *listed == id);
        listed.expect("every entry is in the index").remove();
        self.sieve.unlink(&mut self.entries, id);
        self.alarms.clear(&mut self.entries, id);
        let entry = self.entries.remove(id);
        self.counts.key_heap -= entry.key.heap();
        if self.index.is_empty() {
            self.index = HashTable::new();
            self.entries = Entries::new();
        }
        let pins = entry.pins();
        self.retire(entry.block, entry.version, pins)
    }

    /// A block that lost its key: it is free unless readers have it.
    fn retire(&mut self, block: Block, version: u64, pins: u32) -> Option<Block> {
        self.counts.value_bytes -= block.length();
        if pins == 0 {
            return Some(block);
        }
        self.counts.pinned_entries -= 1;
        self.detached.insert(version, block, pins);
        None
    }
}

/// What an entry takes with its place in the tables, without a long key.
const ENTRY: usize = 76;
