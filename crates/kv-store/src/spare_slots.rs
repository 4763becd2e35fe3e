//! Slots that are free and kept for the next values of their size class, so that threads that write need not lock the pool for
//! each value.
//!
//! Each thread uses one of several parts. A part keeps few bytes: all parts together at most a 64th of the pool. What they keep
//! counts as used, until the pool is full or its usage is asked for: then it is returned.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::pool::{Block, MAX_SLOT_BYTES, Pool};

#[derive(Debug)]
pub(crate) struct SpareSlots {
    parts: Box<[Part]>,
    /// The limit of one part.
    max_bytes: u64,
}

/// Used by one thread, as long as there are not more threads than parts. Two of them share no cache line, nor a pair of lines that is
/// prefetched together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    slots: Mutex<Slots>,
    /// Bytes that were reserved less those whose reservation ended, by threads of this part. Only the sum of all parts is
    /// meaningful.
    reserved_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Slots {
    blocks: Vec<Block>,
    bytes: u64,
}

impl SpareSlots {
    pub(crate) fn new(pool_bytes: u64) -> SpareSlots {
        let parts: Box<[Part]> = (0..PARTS).map(|_| Part::default()).collect();
        SpareSlots { parts, max_bytes: (pool_bytes / 128 / PARTS as u64).min(MAX_PART_BYTES) }
    }

    /// A slot for a value of this length.
    pub(crate) fn take(&self, length: u64) -> Option<Block> {
        if length == 0 || length > self.max_bytes.min(MAX_SLOT_BYTES) {
            return None;
        }
        let length = length as u16;
        let mut slots = self.part().lock();
        // The last ones are in this CPU's cache.
        let at = slots.blocks.iter().rposition(|block| block.has_class_of(length))?;
        let block = slots.blocks.swap_remove(at);
        slots.bytes -= block.length();
        Some(block.for_length(length))
    }

    /// Keeps a slot. Returns blocks that the pool must take instead: this one, or older ones.
    pub(crate) fn keep(&self, block: Block) -> Vec<Block> {
        if !block.is_slot() || block.length() > self.max_bytes {
            return vec![block];
        }
        let mut slots = self.part().lock();
        slots.bytes += block.length();
        slots.blocks.push(block);
        if slots.bytes <= self.max_bytes && slots.blocks.len() <= MAX_PART_SLOTS {
            return Vec::new();
        }
        let half = slots.blocks.len().div_ceil(2);
        let older: Vec<Block> = slots.blocks.drain(..half).collect();
        slots.bytes -= older.iter().map(Block::length).sum::<u64>();
        older
    }

    /// How many slots are fetched from the pool beside one for a value of this length.
    pub(crate) fn extra(&self, length: u64) -> usize {
        (self.max_bytes / 2 / length.max(1)).min(MAX_EXTRA) as usize
    }

    /// Fetches slots for values of this length, as far as the pool has free ones of the class.
    pub(crate) fn fetch(&self, length: u64, pool: &mut Pool) -> Vec<Block> {
        let extra = self.extra(length);
        if extra == 0 {
            return Vec::new();
        }
        std::iter::from_fn(|| pool.free_slot(length)).take(extra).collect()
    }

    /// Keeps fetched slots.
    pub(crate) fn keep_all(&self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            let mut slots = self.part().lock();
            slots.bytes += blocks.iter().map(Block::length).sum::<u64>();
            slots.blocks.extend(blocks);
        }
    }

    /// Takes all slots that are kept, for the pool.
    pub(crate) fn take_all(&self, blocks: &mut Vec<Block>) {
        for part in &self.parts {
            let mut slots = part.lock();
            slots.bytes = 0;
            blocks.append(&mut slots.blocks);
        }
    }

    pub(crate) fn begin_reservation(&self, bytes: u64) {
        self.part().reserved_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn end_reservation(&self, bytes: u64) {
        self.part().reserved_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Bytes of reservations that have not ended.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.reserved_bytes.load(Relaxed));
        // A sum in which another thread's reservation has ended but not begun would be below zero.
        let sum = parts.fold(0_u64, u64::wrapping_add);
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    fn part(&self) -> &Part {
        thread_local! {
            static NUMBER: usize = NEXT_NUMBER.fetch_add(1, Relaxed);
        }
        &self.parts[NUMBER.with(|number| *number) % PARTS]
    }
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("no thread panics while it holds spare slots")
    }
}

/// The number of the next thread that uses a store.
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

const PARTS: usize = 16;

/// The limits of one part.
const MAX_PART_BYTES: u64 = 256 << 10;
const MAX_PART_SLOTS: usize = 64;
/// Slots that are fetched beside the one that is needed.
const MAX_EXTRA: u64 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: u64 = 64 << 20;

    #[test]
    fn a_slot_is_taken_again_for_a_value_of_its_class() {
        let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
        let block = pool.allocate(1000).unwrap();
        let at = block.ranges();
        assert!(spare.keep(block).is_empty());
        assert!(spare.take(2000).is_none(), "another class");
        let again = spare.take(1010).unwrap();
        assert_eq!(again.length(), 1010);
        assert_eq!(again.ranges().as_slice()[0].offset, at.as_slice()[0].offset);
        assert!(spare.take(1000).is_none(), "it was taken");
        pool.release(again);
        assert_eq!(pool.free_bytes(), POOL);
    }

    #[test]
    fn the_bytes_and_the_slots_that_are_kept_are_limited() {
        for length in [8, 4096, 32 << 10] {
            let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
            let mut returned = 0;
            let blocks: Vec<Block> = (0..1000).map(|_| pool.allocate(length).unwrap()).collect();
            for block in blocks {
                let older = spare.keep(block);
                returned += older.len();
                older.into_iter().for_each(|block| pool.release(block));
            }
            let mut kept = Vec::new();
            spare.take_all(&mut kept);
            assert_eq!(kept.len() + returned, 1000);
            let max = (spare.max_bytes / length).min(MAX_PART_SLOTS as u64);
            assert!((1..=max).contains(&(kept.len() as u64)), "{length}: {}", kept.len());
            kept.into_iter().for_each(|block| pool.release(block));
            assert_eq!(pool.free_bytes(), POOL);
        }
    }

    #[test]
    fn only_slots_are_kept() {
        let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
        let long = spare.keep(pool.allocate(1 << 20).unwrap());
        assert_eq!(long.len(), 1);
        let small = SpareSlots::new(64 << 10);
        assert_eq!(small.keep(pool.allocate(100).unwrap()).len(), 1, "the pool is too small");
    }

    #[test]
    fn fetched_slots_open_no_slab() {
        let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
        let first = pool.allocate(4096).unwrap();
        assert!(spare.fetch(4096, &mut pool).is_empty(), "the first slab has one slot");
        let rest: Vec<Block> = (0..20).map(|_| pool.allocate(4096).unwrap()).collect();
        let free = pool.free_bytes();
        let fetched = spare.fetch(4096, &mut pool);
        assert!((1..=spare.extra(4096)).contains(&fetched.len()));
        assert_eq!(pool.free_bytes(), free);
        rest.into_iter().chain(fetched).chain([first]).for_each(|block| pool.release(block));
        assert_eq!(pool.free_bytes(), POOL);
    }
}
