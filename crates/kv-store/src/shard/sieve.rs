//! The eviction policy: SIEVE (Zhang et al., NSDI 2024).

use super::entries::{Entries, NONE};

/// The entries of a shard in insertion order, and a hand that moves from old to new. Entries
/// visited since it last passed are skipped once; the first that was not is evicted. A hit only
/// sets a bit, and entries that are never read again are evicted before those that are.
#[derive(Debug)]
pub(crate) struct Sieve {
    newest: u32,
    oldest: u32,
    /// Where the search continues; `NONE`: at the oldest.
    hand: u32,
}

impl Sieve {
    pub(super) fn new() -> Sieve {
        Sieve { newest: NONE, oldest: NONE, hand: NONE }
    }

    /// Adds an entry as the newest.
    pub(super) fn link(&mut self, entries: &mut Entries, id: u32) {
        entries[id].older = self.newest;
        entries[id].newer = NONE;
        match self.newest {
            NONE => self.oldest = id,
            newest => entries[newest].newer = id,
        }
        self.newest = id;
    }

    pub(super) fn unlink(&mut self, entries: &mut Entries, id: u32) {
        let (newer, older) = (entries[id].newer, entries[id].older);
        if self.hand == id {
            self.hand = newer;
        }
        match newer {
            NONE => self.newest = older,
            _ => entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => entries[older].newer = newer,
        }
    }

    /// The entry to evict; `count` is the number of entries. Pinned ones are skipped: evicting them
    /// would free nothing.
    pub(super) fn victim(&mut self, entries: &mut Entries, count: usize) -> Option<u32> {
        // The first pass clears all marks; in the second, the first entry that is not pinned is chosen.
        for _ in 0..2 * count {
            let id = if self.hand == NONE { self.oldest } else { self.hand };
            let entry = &mut entries[id];
            self.hand = entry.newer;
            let visited = entry.take_visited();
            if !visited && entry.pins() == 0 {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::key::StoredKey;
    use crate::pool::Block;
    use crate::shard::entry::Entry;

    fn with_entries(count: u64) -> (Sieve, Entries) {
        let (mut sieve, mut entries) = (Sieve::new(), Entries::new());
        for version in 0..count {
            let key = StoredKey::new(Key::new(b"key").unwrap());
            let id = entries.insert(Entry::new(key, Block::Empty, version));
            sieve.link(&mut entries, id);
        }
        (sieve, entries)
    }

    fn evict(sieve: &mut Sieve, entries: &mut Entries, count: usize) -> u32 {
        let id = sieve.victim(entries, count).unwrap();
        sieve.unlink(entries, id);
        entries.remove(id);
        id
    }

    #[test]
    fn the_oldest_is_evicted_unless_it_was_read() {
        let (mut sieve, mut entries) = with_entries(4);
        entries[0].pin();
        entries[0].unpin();
        assert_eq!(evict(&mut sieve, &mut entries, 4), 1);
        assert_eq!(evict(&mut sieve, &mut entries, 3), 2);
        assert_eq!(evict(&mut sieve, &mut entries, 2), 3);
        assert_eq!(evict(&mut sieve, &mut entries, 1), 0, "the hand has cleared its mark");
        assert_eq!(sieve.victim(&mut entries, 0), None);
    }

    #[test]
    fn pinned_entries_are_skipped() {
        let (mut sieve, mut entries) = with_entries(3);
        for id in 0..3 {
            entries[id].pin();
        }
        assert_eq!(sieve.victim(&mut entries, 3), None);
        entries[1].unpin();
        assert_eq!(evict(&mut sieve, &mut entries, 3), 1);
    }

    #[test]
    fn the_list_stays_consistent_when_any_entry_is_removed() {
        for removed in 0..3 {
            let (mut sieve, mut entries) = with_entries(3);
            sieve.hand = removed;
            sieve.unlink(&mut entries, removed);
            entries.remove(removed);
            let mut left: Vec<u32> =
                (0..2).map(|n| evict(&mut sieve, &mut entries, 2 - n)).collect();
            left.sort_unstable();
            assert_eq!(left, (0..3).filter(|id| *id != removed).collect::<Vec<u32>>());
        }
    }
}
