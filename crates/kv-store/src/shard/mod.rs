//! A shard: the part of the index under one lock.
//!
//! Its methods return blocks that are no longer used; the caller releases them to the pool
//! after it has released the shard's lock.

mod counts;
mod detached;
mod entries;
mod entry;
mod expiries;
mod hashing;
mod sieve;

use hashbrown::HashTable;

use crate::key::StoredKey;
use crate::pool::{Block, SparseSlabs};
use crate::{Key, Metadata, Ranges, Timestamp, Usage};

use counts::Counts;
use detached::Detached;
use entries::Entries;
use entry::Entry;
use expiries::Expiries;
pub(crate) use hashing::Hashing;
use sieve::Sieve;

/// The keys of one range of hashes, and their values.
#[derive(Debug)]
pub(crate) struct Shard {
    hashing: Hashing,
    /// Indexes of entries, by the hash of their keys.
    index: HashTable<u32>,
    entries: Entries,
    sieve: Sieve,
    expiries: Expiries,
    detached: Detached,
    counts: Counts,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Live(u32),
    /// Expired, but not removed yet.
    Expired(u32),
    Absent,
}

/// A value to be stored.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) block: Block,
    pub(crate) version: u64,
    pub(crate) expires: Option<Timestamp>,
}

impl Shard {
    pub(crate) fn new(hashing: Hashing) -> Shard {
        Shard {
            hashing,
            index: HashTable::new(),
            entries: Entries::new(),
            sieve: Sieve::new(),
            expiries: Expiries::new(),
            detached: Detached::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn find(&self, hash: u64, key: Key<'_>, now: Timestamp) -> Found {
        let entries = &self.entries;
        let same = |id: &u32| entries[*id].key.as_bytes() == key.as_bytes();
        match self.index.find(hash, same) {
            None => Found::Absent,
            Some(&id) if self.is_expired(id, now) => Found::Expired(id),
            Some(&id) => Found::Live(id),
        }
    }

    /// The version of a live entry.
    pub(crate) fn version(&self, found: Found) -> Option<u64> {
        match found {
            Found::Live(id) => Some(self.entries[id].version),
            Found::Expired(_) | Found::Absent => None,
        }
    }

    pub(crate) fn metadata(&self, id: u32) -> Metadata {
        let entry = &self.entries[id];
        let expires = self.expiries.get(&self.entries, id);
        Metadata { length: entry.block.length(), version: entry.version, expires }
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

    /// Removes a pin, from the entry if it still has that version.
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

    /// Stores a value under a key; `found` is the result of its lookup.
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
            Found::Absent => {
                self.insert(hash, key, value);
                None
            }
            Found::Live(id) => self.replace(id, value),
            Found::Expired(id) => {
                self.counts.expired += 1;
                self.replace(id, value)
            }
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Option<Block> {
        self.counts.deletes += 1;
        self.remove(id)
    }

    /// Removes an expired entry.
    pub(crate) fn expire(&mut self, id: u32) -> Option<Block> {
        self.counts.expired += 1;
        self.remove(id)
    }

    /// Evicts one entry, if any may be evicted.
    pub(crate) fn evict(&mut self) -> Option<Block> {
        if self.index.len() == self.counts.pinned_entries {
            return None;
        }
        let id = self.sieve.victim(&mut self.entries, self.index.len())?;
        self.counts.evicted += 1;
        self.remove(id)
    }

    /// Evicts the values in these slabs that are not pinned.
    pub(crate) fn evict_from(&mut self, sparse: &SparseSlabs, freed: &mut Vec<Block>) {
        for id in 0..self.entries.end() {
            let may_evict = |entry: &Entry| entry.pins() == 0 && sparse.has(&entry.block);
            if self.entries.get(id).is_some_and(may_evict) {
                self.counts.evicted += 1;
                freed.extend(self.remove(id));
            }
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) -> Vec<Block> {
        let all = 0..self.entries.end();
        all.filter_map(|id| self.entries.get(id).is_some().then(|| self.delete(id))?).collect()
    }

    /// The entry that expires first, and when.
    pub(crate) fn first_expiry(&self) -> Option<(Timestamp, u32)> {
        self.expiries.first()
    }

    /// The key and the metadata of the entry with this index, if there is one and it has not expired.
    pub(crate) fn live_entry(&self, id: u32, now: Timestamp) -> Option<(&[u8], Metadata)> {
        let entry = self.entries.get(id)?;
        (!self.is_expired(id, now)).then(|| (entry.key.as_bytes(), self.metadata(id)))
    }

    /// All indexes of entries are below this.
    pub(crate) fn end(&self) -> u32 {
        self.entries.end()
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.counts.pinned_bytes
    }

    /// Adds this shard's counters to `usage`.
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

    /// An estimate of the index's memory: cheap to compute, and independent of when tables grow.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        (self.index.len() * ENTRY_BYTES + self.counts.key_heap) as u64
    }

    fn heap(&self) -> usize {
        let tables = self.index.allocation_size() + self.detached.heap();
        tables + self.entries.heap() + self.expiries.heap() + self.counts.key_heap
    }

    fn is_expired(&self, id: u32, now: Timestamp) -> bool {
        self.expiries.get(&self.entries, id).is_some_and(|expires| expires <= now)
    }

    fn insert(&mut self, hash: u64, key: Key<'_>, value: Value) {
        let key = StoredKey::new(key);
        self.counts.key_heap += key.heap();
        let id = self.entries.insert(Entry::new(key, value.block, value.version));
        let (entries, hashing) = (&self.entries, &self.hashing);
        let hash_of = |id: &u32| hashing.of(entries[*id].key.as_bytes());
        self.index.insert_unique(hash, id, hash_of);
        self.sieve.link(&mut self.entries, id);
        self.expiries.set(&mut self.entries, id, value.expires);
    }

    /// Replaces the value of an entry, whose index does not change.
    fn replace(&mut self, id: u32, value: Value) -> Option<Block> {
        let (block, version, pins) = self.entries[id].replace(value.block, value.version);
        self.expiries.set(&mut self.entries, id, value.expires);
        self.retire(block, version, pins)
    }

    fn remove(&mut self, id: u32) -> Option<Block> {
        let hash = self.hashing.of(self.entries[id].key.as_bytes());
        let listed = self.index.find_entry(hash, |listed| *listed == id);
        listed.expect("every entry is in the index").remove();
        self.sieve.unlink(&mut self.entries, id);
        self.expiries.clear(&mut self.entries, id);
        let entry = self.entries.remove(id);
        self.counts.key_heap -= entry.key.heap();
        if self.index.is_empty() {
            self.index = HashTable::new();
            self.entries = Entries::new();
        }
        let pins = entry.pins();
        self.retire(entry.block, entry.version, pins)
    }

    /// Returns a block without key if it is not pinned, else keeps it as detached.
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

/// The memory of an entry with its share of the tables, without a long key.
const ENTRY_BYTES: usize = 76;
