//! Slots that are free and kept for the next values of their size class, so that threads that write need not lock the pool for
//! each value.
//!
//! Each thread uses one of several parts. A part keeps few bytes: all parts together at most a 64th of the pool. What they keep
//! counts as used, until the pool is full or its usage is asked for: then it is returned.
//!
//! Slots move between a part and the pool only while the pool is locked. So who holds the pool's lock finds each free slot in one of
//! them, and a value is not refused, nor another one evicted, because slots were on their way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::pool::{Block, MAX_SLOT_BYTES, Pool};

#[derive(Debug)]
pub(crate) struct SpareSlots {
    parts: Box<[Part]>,
    /// The limit of one part. A slot may be twice as long as its class, so the limits of all are half of what they keep at most.
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
    /// The sum of the lengths of their classes.
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
        slots.bytes -= block.class_bytes();
        Some(block.for_length(length))
    }

    /// Keeps a slot. Returns a block that the pool must take.
    pub(crate) fn keep(&self, block: Block) -> Option<Block> {
        if !block.is_slot() {
            return Some(block);
        }
        let mut slots = self.part().lock();
        if !slots.has_space(block.class_bytes(), self.max_bytes) {
            return Some(block);
        }
        slots.push(block);
        None
    }

    /// How many slots are fetched from the pool beside one for a value of this length.
    pub(crate) fn extra(&self, length: u64) -> usize {
        (self.max_bytes / 2 / length.max(1)).min(MAX_EXTRA) as usize
    }

    /// Fetches slots for values of this length, as far as the pool has free ones of the class.
    pub(crate) fn fetch(&self, length: u64, pool: &mut Pool) {
        let extra = self.extra(length);
        if extra == 0 {
            return;
        }
        let mut slots = self.part().lock();
        for block in std::iter::from_fn(|| pool.free_slot(length)).take(extra) {
            if !slots.has_space(block.class_bytes(), self.max_bytes) {
                return pool.release(block);
            }
            slots.push(block);
        }
    }

    /// Returns the older half of this thread's slots to the pool.
    pub(crate) fn make_space(&self, pool: &mut Pool) {
        let mut slots = self.part().lock();
        let half = slots.blocks.len().div_ceil(2);
        slots.blocks.drain(..half).for_each(|block| pool.release(block));
        slots.bytes = slots.blocks.iter().map(Block::class_bytes).sum();
    }

    /// Returns all slots to the pool.
    pub(crate) fn return_all(&self, pool: &mut Pool) {
        for part in &self.parts {
            let mut slots = part.lock();
            slots.bytes = 0;
            slots.blocks.drain(..).for_each(|block| pool.release(block));
        }
    }

    pub(crate) fn begin_reservation(&self, bytes: u64) {
        self.part().reserved_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn end_reservation(&self, bytes: u64) {
        self.part().reserved_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Bytes of reservations that have not ended; approximate while other threads reserve.
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

impl Slots {
    fn has_space(&self, bytes: u64, max_bytes: u64) -> bool {
        self.bytes + bytes <= max_bytes && self.blocks.len() < MAX_PART_SLOTS
    }

    fn push(&mut self, block: Block) {
        self.bytes += block.class_bytes();
        self.blocks.push(block);
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
        assert!(spare.keep(block).is_none());
        assert!(spare.take(2000).is_none(), "another class");
        let again = spare.take(1010).unwrap();
        assert_eq!(again.length(), 1010);
        assert_eq!(again.ranges().as_slice()[0].offset, at.as_slice()[0].offset);
        assert!(spare.take(1000).is_none(), "it was taken");
        pool.release(again);
        assert_eq!(pool.free_bytes(), POOL);
    }

    /// Of one class, and of many.
    #[test]
    fn the_bytes_and_the_slots_that_are_kept_are_limited() {
        for lengths in [&[8][..], &[4096], &[32 << 10], &[1, 40, 300, 1000, 4096, 9000, 20_000]] {
            let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
            let length = |number: usize| lengths[number % lengths.len()];
            let blocks: Vec<Block> =
                (0..1000).map(|number| pool.allocate(length(number)).unwrap()).collect();
            for (number, block) in blocks.into_iter().enumerate() {
                if let Some(block) = spare.keep(block) {
                    pool.release(block);
                    spare.make_space(&mut pool);
                }
                spare.fetch(length(number), &mut pool);
                let slots = spare.part().lock();
                assert!(slots.bytes <= spare.max_bytes && slots.blocks.len() <= MAX_PART_SLOTS);
                let bytes: u64 = slots.blocks.iter().map(Block::class_bytes).sum();
                assert_eq!(slots.bytes, bytes, "{lengths:?}");
            }
            spare.return_all(&mut pool);
            assert_eq!(pool.free_bytes(), POOL);
        }
    }

    #[test]
    fn only_slots_are_kept() {
        let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
        assert!(spare.keep(pool.allocate(1 << 20).unwrap()).is_some());
        let small = SpareSlots::new(64 << 10);
        assert!(small.keep(pool.allocate(100).unwrap()).is_some(), "the pool is too small");
    }

    #[test]
    fn fetched_slots_open_no_slab() {
        let (mut pool, spare) = (Pool::new(POOL), SpareSlots::new(POOL));
        let first = pool.allocate(4096).unwrap();
        spare.fetch(4096, &mut pool);
        assert!(spare.take(4096).is_none(), "the first slab has one slot");
        let rest: Vec<Block> = (0..20).map(|_| pool.allocate(4096).unwrap()).collect();
        let free = pool.free_bytes();
        spare.fetch(4096, &mut pool);
        assert_eq!(pool.free_bytes(), free);
        let fetched = spare.take(4096).expect("a fetched one");
        rest.into_iter().chain([fetched, first]).for_each(|block| pool.release(block));
        spare.return_all(&mut pool);
        assert_eq!(pool.free_bytes(), POOL);
    }
}
