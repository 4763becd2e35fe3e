//! The entries of a shard, by an index that is stable while the key exists.

use std::ops::{Index, IndexMut};

use super::entry::Entry;

/// The entries of a shard. They are in chunks, so that growing moves none and does not double the memory.
#[derive(Debug)]
pub(crate) struct Entries {
    chunks: Vec<Box<[EntrySlot]>>,
    /// The first vacant slot, or `NONE`.
    vacant: u32,
}

/// A slot for an entry, of the same size.
#[derive(Debug)]
enum EntrySlot {
    Vacant { next: u32 },
    Occupied(Entry),
}

impl Entries {
    pub(super) fn new() -> Entries {
        Entries { chunks: Vec::new(), vacant: NONE }
    }

    /// Stores an entry; returns its index.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        if self.vacant == NONE {
            self.grow();
        }
        let id = self.vacant;
        match std::mem::replace(self.slot_mut(id), EntrySlot::Occupied(entry)) {
            EntrySlot::Vacant { next } => self.vacant = next,
            EntrySlot::Occupied(_) => unreachable!("occupied slots are not listed as vacant"),
        }
        id
    }

    pub(super) fn remove(&mut self, id: u32) -> Entry {
        let vacant = EntrySlot::Vacant { next: self.vacant };
        match std::mem::replace(self.slot_mut(id), vacant) {
            EntrySlot::Occupied(entry) => {
                self.vacant = id;
                entry
            }
            EntrySlot::Vacant { .. } => unreachable!("entry {id} was removed before"),
        }
    }

    /// The entry of this index, if the slot is occupied.
    pub(super) fn get(&self, id: u32) -> Option<&Entry> {
        match self.chunks.get(id as usize / CHUNK)?[id as usize % CHUNK] {
            EntrySlot::Occupied(ref entry) => Some(entry),
            EntrySlot::Vacant { .. } => None,
        }
    }

    /// All indexes are below this.
    pub(super) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    pub(super) fn heap(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[EntrySlot]>>()
            + self.chunks.len() * CHUNK * size_of::<EntrySlot>()
    }

    /// Adds a chunk, its slots listed in order.
    fn grow(&mut self) {
        let first = self.end();
        assert!(first < NONE - CHUNK as u32, "a shard has 2^32 keys");
        let last = first + CHUNK as u32 - 1;
        let next = |id| if id == last { NONE } else { id + 1 };
        self.chunks.push((first..=last).map(|id| EntrySlot::Vacant { next: next(id) }).collect());
        self.vacant = first;
    }

    fn slot_mut(&mut self, id: u32) -> &mut EntrySlot {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl Index<u32> for Entries {
    type Output = Entry;

    fn index(&self, id: u32) -> &Entry {
        self.get(id).expect("the index of an entry")
    }
}

impl IndexMut<u32> for Entries {
    fn index_mut(&mut self, id: u32) -> &mut Entry {
        match self.slot_mut(id) {
            EntrySlot::Occupied(entry) => entry,
            EntrySlot::Vacant { .. } => unreachable!("{id} is the index of an entry"),
        }
    }
}

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in a chunk of 16 KiB.
const CHUNK: usize = 256;

const _: () = assert!(size_of::<EntrySlot>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::key::StoredKey;
    use crate::pool::Block;

    fn entry(version: u64) -> Entry {
        Entry::new(StoredKey::new(Key::new(b"key").unwrap()), Block::Empty, version)
    }

    #[test]
    fn indexes_are_stable_and_reused() {
        let mut entries = Entries::new();
        let ids: Vec<u32> = (0..600).map(|version| entries.insert(entry(version))).collect();
        assert_eq!(ids, (0..600).collect::<Vec<u32>>());
        assert_eq!(entries.remove(77).version, 77);
        assert!(entries.get(77).is_none() && entries.get(9999).is_none());
        assert_eq!(entries.insert(entry(1000)), 77);
        assert_eq!((entries[77].version, entries[599].version), (1000, 599));
        assert_eq!(entries.insert(entry(0)), 600);
    }
}
