//! The expiries of entries.

use super::entries::{Entries, NONE};
use crate::Timestamp;

/// The expiries of entries: a binary heap, earliest first; each entry knows its index in it.
/// Entries without expiry are not in it and take no memory.
#[derive(Debug)]
pub(crate) struct Expiries(Vec<(Timestamp, u32)>);

impl Expiries {
    pub(super) fn new() -> Expiries {
        Expiries(Vec::new())
    }

    /// When this entry expires.
    pub(super) fn get(&self, entries: &Entries, id: u32) -> Option<Timestamp> {
        match entries[id].expiry_index {
            NONE => None,
            at => Some(self.0[at as usize].0),
        }
    }

    /// Sets or removes the expiry of an entry.
    pub(super) fn set(&mut self, entries: &mut Entries, id: u32, when: Option<Timestamp>) {
        self.clear(entries, id);
        if let Some(when) = when {
            self.0.push((when, id));
            self.sift_up(entries, self.0.len() - 1);
        }
    }

    pub(super) fn clear(&mut self, entries: &mut Entries, id: u32) {
        let at = std::mem::replace(&mut entries[id].expiry_index, NONE);
        if at == NONE {
            return;
        }
        self.0.swap_remove(at as usize);
        if (at as usize) < self.0.len() {
            // The element that was swapped in may belong higher or lower; only one of these moves it.
            let at = self.sift_up(entries, at as usize);
            self.sift_down(entries, at);
        } else if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// The entry that expires first, and when.
    pub(super) fn first(&self) -> Option<(Timestamp, u32)> {
        self.0.first().copied()
    }

    pub(super) fn heap(&self) -> usize {
        self.0.capacity() * size_of::<(Timestamp, u32)>()
    }

    fn sift_up(&mut self, entries: &mut Entries, mut at: usize) -> usize {
        let moving = self.0[at];
        while at > 0 && moving < self.0[(at - 1) / 2] {
            self.set_at(entries, at, self.0[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.set_at(entries, at, moving);
        at
    }

    fn sift_down(&mut self, entries: &mut Entries, mut at: usize) {
        let moving = self.0[at];
        while let Some(smallest) =
            (2 * at + 1..self.0.len().min(2 * at + 3)).min_by_key(|n| self.0[*n])
            && self.0[smallest] < moving
        {
            self.set_at(entries, at, self.0[smallest]);
            at = smallest;
        }
        self.set_at(entries, at, moving);
    }

    fn set_at(&mut self, entries: &mut Entries, at: usize, expiry: (Timestamp, u32)) {
        self.0[at] = expiry;
        entries[expiry.1].expiry_index = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::key::StoredKey;
    use crate::pool::Block;
    use crate::shard::entry::Entry;

    #[test]
    fn the_earliest_is_always_first() {
        let (mut expiries, mut entries) = (Expiries::new(), Entries::new());
        let key = || StoredKey::new(Key::new(b"key").unwrap());
        for version in 0..200 {
            entries.insert(Entry::new(key(), Block::Empty, version));
        }
        for round in 0..2000u32 {
            let (id, when) = (round * 7919 % 200, u64::from(round * 104_729 % 1000));
            expiries.set(&mut entries, id, (when % 3 > 0).then_some(Timestamp(when)));
            let all = (0..200).filter_map(|id| Some((expiries.get(&entries, id)?, id)));
            assert_eq!(expiries.first(), all.min());
        }
        (0..200).for_each(|id| expiries.clear(&mut entries, id));
        assert_eq!((expiries.first(), expiries.heap()), (None, 0));
    }
}
