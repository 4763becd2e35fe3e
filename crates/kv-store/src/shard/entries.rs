//! The entries of a shard, by numbers that stay while the key exists.

use std::ops::{Index, IndexMut};

use super::entry::Entry;

/// The entries of a shard. They lie in chunks, so that growing moves none and doubles nothing.
#[derive(Debug)]
pub(crate) struct Entries {
    chunks: Vec<Box<[Place]>>,
    /// The first vacant place, or `NONE`.
    vacant: u32,
}

/// A place for an entry, and no longer than one.
#[derive(Debug)]
enum Place {
    Vacant { next: u32 },
    Held(Entry),
}

impl Entries {
    pub(super) fn new() -> Entries {
        Entries { chunks: Vec::new(), vacant: NONE }
    }

    /// Keeps an entry and numbers it.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        if self.vacant == NONE {
            self.grow();
        }
        let id = self.vacant;
        match std::mem::replace(self.place_mut(id), Place::Held(entry)) {
            Place::Vacant { next } => self.vacant = next,
            Place::Held(_) => unreachable!("held places are not listed as vacant"),
        }
        id
    }

    pub(super) fn remove(&mut self, id: u32) -> Entry {
        let vacant = Place::Vacant { next: self.vacant };
        match std::mem::replace(self.place_mut(id), vacant) {
            Place::Held(entry) => {
                self.vacant = id;
                entry
            }
            Place::Vacant { .. } => unreachable!("entry {id} was removed before"),
        }
    }

    /// The entry of this number, if there is one now.
    pub(super) fn get(&self, id: u32) -> Option<&Entry> {
        match self.chunks.get(id as usize / CHUNK)?[id as usize % CHUNK] {
            Place::Held(ref entry) => Some(entry),
            Place::Vacant { .. } => None,
        }
    }

    /// All numbers are below this.
    pub(super) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    pub(super) fn heap(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[Place]>>()
            + self.chunks.len() * CHUNK * size_of::<Place>()
    }

    /// One chunk more, its places listed in order.
    fn grow(&mut self) {
        let first = self.end();
        assert!(first < NONE - CHUNK as u32, "a shard has 2^32 keys");
        let last = first + CHUNK as u32 - 1;
        let next = |id| if id == last { NONE } else { id + 1 };
        self.chunks.push((first..=last).map(|id| Place::Vacant { next: next(id) }).collect());
        self.vacant = first;
    }

    fn place_mut(&mut self, id: u32) -> &mut Place {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl Index<u32> for Entries {
    type Output = Entry;

    fn index(&self, id: u32) -> &Entry {
        self.get(id).expect("the number of an entry")
    }
}

impl IndexMut<u32> for Entries {
    fn index_mut(&mut self, id: u32) -> &mut Entry {
        match self.place_mut(id) {
            Place::Held(entry) => entry,
            Place::Vacant { .. } => unreachable!("{id} is the number of an entry"),
        }
    }
}

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in a chunk of 16 KiB.
const CHUNK: usize = 256;

const _: () = assert!(size_of::<Place>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::key::KeptKey;
    use crate::pool::Block;

    fn entry(version: u64) -> Entry {
        Entry::new(KeptKey::new(Key::new(b"key").unwrap()), Block::Empty, version)
    }

    #[test]
    fn numbers_stay_and_are_used_again() {
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
