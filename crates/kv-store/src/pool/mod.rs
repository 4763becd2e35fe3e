//! The pool: allocates offsets for values. It never touches the memory.
//!
//! All memory comes from [`Runs`], in units of 4 KiB. Values of up to 32 KiB are stored in slots of
//! [`Slabs`], which are runs divided into equal parts; longer ones take a run, or several if no
//! single one is long enough. So a value is never refused because of fragmentation.

mod bins;
mod block;
mod classes;
mod runs;
mod slab;
mod slabs;
mod sparse;

use crate::Range;

pub(crate) use block::Block;
use block::Extents;
pub(crate) use classes::MAX_SLOT_BYTES;
use runs::{Run, Runs};
use slabs::Slabs;
pub(crate) use sparse::SparseSlabs;

/// All memory of the store's values.
#[derive(Debug)]
pub(crate) struct Pool {
    runs: Runs,
    slabs: Slabs,
    /// Heap bytes of blocks of several extents.
    extents_heap: usize,
}

/// Why an allocation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocError {
    /// The value is longer than the pool.
    TooLong { max: u64 },
    /// At least `missing` bytes must be freed first. `fragmented`: more than an eighth of the pool
    /// is in free slots of other lengths.
    Full { missing: u64, fragmented: bool },
}

impl Pool {
    pub(crate) fn new(bytes: u64) -> Pool {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).min(Runs::MAX_UNITS);
        Pool { runs: Runs::new(units), slabs: Slabs::new(), extents_heap: 0 }
    }

    /// Memory for a value of this length.
    pub(crate) fn allocate(&mut self, length: u64) -> Result<Block, AllocError> {
        if length == 0 {
            return Ok(Block::Empty);
        }
        let max = self.bytes();
        if length > max {
            return Err(AllocError::TooLong { max });
        }
        if length <= MAX_SLOT_BYTES {
            return self.allocate_short(length as u16);
        }
        self.take_units(length)
    }

    /// A free slot for a value of this length, if it is short and a slab of its class has one.
    pub(crate) fn free_slot(&mut self, length: u64) -> Option<Block> {
        let is_short = (1..=MAX_SLOT_BYTES).contains(&length);
        is_short.then(|| self.slabs.take_free(length as u16))?
    }

    pub(crate) fn release(&mut self, block: Block) {
        match block {
            Block::Empty => {}
            Block::Slot { slab, at, .. } => self.slabs.release(slab, at, &mut self.runs),
            Block::Run { unit, length } => {
                self.runs.release(Run { first: unit, units: units_of(length) });
            }
            Block::Many(extents) => {
                self.extents_heap -= extents.heap();
                extents.ranges.iter().for_each(|range| self.runs.release(run_of(*range)));
            }
        }
    }

    /// A short value: a slot of its class, else single units, else a larger slot.
    /// The last wastes memory, but less than evicting a value whose slot does not fit this one.
    fn allocate_short(&mut self, length: u16) -> Result<Block, AllocError> {
        if let Some(block) = self.slabs.take(length, &mut self.runs) {
            return Ok(block);
        }
        if u64::from(length) > UNIT_BYTES
            && let Ok(block) = self.take_units(u64::from(length))
        {
            return Ok(block);
        }
        self.slabs.take_larger(length).ok_or_else(|| self.full(1))
    }

    /// Units for a value, in one run if possible.
    fn take_units(&mut self, length: u64) -> Result<Block, AllocError> {
        let units = units_of(length);
        if units > self.runs.free() {
            return Err(self.full(u64::from(units - self.runs.free()) * UNIT_BYTES));
        }
        match self.runs.take(units) {
            Some(run) => Ok(Block::Run { unit: run.first, length }),
            None => Ok(self.take_extents(units, length)),
        }
    }

    /// The longest runs first, so that there are few; the last extent from the best fit.
    fn take_extents(&mut self, units: u32, length: u64) -> Block {
        let (mut units_left, mut bytes_left) = (units, length);
        let mut ranges = Vec::new();
        while units_left > 0 {
            let run = self.runs.take_up_to(units_left).expect("enough units are free");
            let bytes = bytes_left.min(u64::from(run.units) * UNIT_BYTES);
            ranges.push(Range { offset: u64::from(run.first) * UNIT_BYTES, length: bytes });
            units_left -= run.units;
            bytes_left -= bytes;
        }
        let extents = Box::new(Extents { length, ranges: ranges.into() });
        self.extents_heap += extents.heap();
        Block::Many(extents)
    }

    fn full(&self, missing: u64) -> AllocError {
        AllocError::Full { missing, fragmented: self.slabs.idle_bytes() > self.bytes() / 8 }
    }

    /// The slabs to empty for this many bytes, or for a 64th of the pool if that is more: emptying
    /// them scans all entries, which should pay off.
    pub(crate) fn sparsest(&self, bytes: u64) -> SparseSlabs {
        SparseSlabs::choose(&self.slabs, units_of(bytes).max(self.runs.units() / 64))
    }

    /// The size of the pool.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.runs.units()) * UNIT_BYTES
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        u64::from(self.runs.free()) * UNIT_BYTES
    }

    pub(crate) fn largest_free(&self) -> u64 {
        u64::from(self.runs.longest()) * UNIT_BYTES
    }

    pub(crate) fn heap(&self) -> usize {
        self.runs.heap() + self.slabs.heap() + self.extents_heap
    }
}

/// The size of a unit.
const UNIT_BYTES: u64 = 4096;

/// The units that this many bytes take; their number fits into `u32`.
fn units_of(bytes: u64) -> u32 {
    bytes.div_ceil(UNIT_BYTES) as u32
}

fn run_of(range: Range) -> Run {
    Run { first: (range.offset / UNIT_BYTES) as u32, units: units_of(range.length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_takes_no_memory() {
        let mut pool = Pool::new(0);
        assert_eq!(pool.allocate(0).unwrap().length(), 0);
        assert_eq!(pool.allocate(1).unwrap_err(), AllocError::TooLong { max: 0 });
    }

    #[test]
    fn a_long_value_fits_into_fragmented_memory() {
        let mut pool = Pool::new(64 * UNIT_BYTES);
        let blocks: Vec<Block> = (0..64).map(|_| pool.take_units(UNIT_BYTES).unwrap()).collect();
        for (number, block) in blocks.into_iter().enumerate() {
            if number % 2 == 0 {
                pool.release(block);
            }
        }
        let block = pool.allocate(32 * UNIT_BYTES - 5).unwrap();
        let ranges = block.ranges();
        assert_eq!(ranges.as_slice().len(), 32);
        assert_eq!(
            ranges.as_slice().iter().map(|range| range.length).sum::<u64>(),
            32 * UNIT_BYTES - 5
        );
        assert_eq!(pool.free_bytes(), 0);
        assert_eq!(
            pool.allocate(UNIT_BYTES * 9).unwrap_err(),
            AllocError::Full { missing: 9 * UNIT_BYTES, fragmented: false }
        );
        pool.release(block);
        assert_eq!(pool.free_bytes(), 32 * UNIT_BYTES);
        assert_eq!(pool.largest_free(), UNIT_BYTES);
    }

    #[test]
    fn a_short_value_fits_where_only_single_units_are_free() {
        let mut pool = Pool::new(8 * UNIT_BYTES);
        let mut blocks: Vec<Block> = (0..8).map(|_| pool.take_units(UNIT_BYTES).unwrap()).collect();
        pool.release(blocks.remove(5));
        pool.release(blocks.remove(2));
        assert!(matches!(pool.allocate(100).unwrap(), Block::Slot { .. }));
        pool.release(blocks.remove(0));
        assert!(matches!(pool.allocate(8000).unwrap(), Block::Many(_)));
        assert!(matches!(pool.allocate(90).unwrap(), Block::Slot { .. }), "in a slot for 104");
        assert_eq!(pool.allocate(8000).unwrap_err(), pool.full(1));
    }
}
