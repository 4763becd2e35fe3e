//! A slab: a run divided into equal slots.

use super::UNIT_BYTES;
use super::bins::NONE;
use super::runs::Run;

/// A run divided into equal slots, and a bitmap of the free ones.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) run: Run,
    pub(super) class: u8,
    pub(super) slot_bytes: u32,
    /// Neighbours among the slabs of the class that have free slots.
    pub(super) next: u32,
    pub(super) previous: u32,
    slots: u32,
    used: u32,
    /// A bit for each word of `free` that is not 0.
    words: u128,
    /// A bit for each free slot.
    free: Box<[u64]>,
}

impl Slab {
    /// The largest number of slots: `words` has a bit for each word of `free`.
    pub(super) const MAX_SLOTS: u32 = 128 * 64;

    pub(super) fn new(run: Run, class: u8, slot_bytes: u32) -> Slab {
        let slots = run.units * UNIT_BYTES as u32 / slot_bytes;
        debug_assert!((1..=Slab::MAX_SLOTS).contains(&slots));
        let mut free = vec![!0; slots.div_ceil(64) as usize].into_boxed_slice();
        if !slots.is_multiple_of(64) {
            free[slots as usize / 64] = (1 << (slots % 64)) - 1;
        }
        let words = !0 >> (128 - free.len());
        Slab { run, class, slot_bytes, next: NONE, previous: NONE, slots, used: 0, words, free }
    }

    /// Allocates a free slot, if there is one; returns its offset.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.words == 0 {
            return None;
        }
        let word = self.words.trailing_zeros() as usize;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word] - 1;
        if self.free[word] == 0 {
            self.words &= self.words - 1;
        }
        self.used += 1;
        let slot = word as u64 * 64 + u64::from(bit);
        Some(u64::from(self.run.first) * UNIT_BYTES + slot * u64::from(self.slot_bytes))
    }

    pub(super) fn release(&mut self, at: u64) {
        let slot = (at - u64::from(self.run.first) * UNIT_BYTES) as u32 / self.slot_bytes;
        let (word, bit) = (slot as usize / 64, slot % 64);
        debug_assert_eq!(self.free[word] & 1 << bit, 0, "a slot is released once");
        self.free[word] |= 1 << bit;
        self.words |= 1 << word;
        self.used -= 1;
    }

    /// Bytes in free slots.
    pub(super) fn idle_bytes(&self) -> u64 {
        u64::from(self.slots - self.used) * u64::from(self.slot_bytes)
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.slots
    }

    /// The used share, in 64ths.
    pub(super) fn fill(&self) -> usize {
        (self.used * 64 / self.slots) as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn heap(&self) -> usize {
        size_of_val(&*self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_allocated_once() {
        for slot_bytes in [8, 104, 4096, 20480, 65536] {
            let mut slab = Slab::new(Run { first: 3, units: 16 }, 0, slot_bytes);
            let all: Vec<u64> = std::iter::from_fn(|| slab.take()).collect();
            assert_eq!(all.len(), 65536 / slot_bytes as usize);
            assert!(slab.is_full());
            let in_order = |(slot, at): (usize, &u64)| {
                *at == 3 * UNIT_BYTES + slot as u64 * u64::from(slot_bytes)
            };
            assert!(all.iter().enumerate().all(in_order));
            slab.release(all[all.len() / 2]);
            assert_eq!(slab.take(), Some(all[all.len() / 2]));
            all.iter().for_each(|at| slab.release(*at));
            assert!(slab.is_empty());
        }
    }
}
