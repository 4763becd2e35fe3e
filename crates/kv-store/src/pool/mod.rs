//! The pool: which bytes belong to which value. It knows offsets only, never the memory.
//!
//! All memory comes from [`Runs`], in units of 4 KiB. Values of up to 32 KiB lie in slots of
//! [`Slabs`], which are runs cut into equal parts; longer ones take a run, or several where no
//! single one is long enough. So a value is never refused because free memory is scattered.

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
use runs::{Run, Runs};
use slabs::Slabs;
pub(crate) use sparse::Sparse;

/// All memory of the store's values.
#[derive(Debug)]
pub(crate) struct Pool {
    runs: Runs,
    slabs: Slabs,
    /// Heap taken by blocks of several extents.
    extents_heap: usize,
}

/// Why no block was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Not even the empty pool would do.
    Ever { most: u64 },
    /// At least so many bytes must come back first. `scattered` says that an eighth of the pool
    /// lies in slots of other lengths.
    Now { missing: u64, scattered: bool },
}

impl Pool {
    pub(crate) fn new(bytes: u64) -> Pool {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).min(Runs::MAX);
        Pool { runs: Runs::new(units), slabs: Slabs::new(), extents_heap: 0 }
    }

    /// Memory for a value of this length.
    pub(crate) fn take(&mut self, length: u64) -> Result<Block, Lack> {
        if length == 0 {
            return Ok(Block::Empty);
        }
        let most = self.bytes();
        if length > most {
            return Err(Lack::Ever { most });
        }
        if length <= classes::LONGEST {
            return self.take_short(length as u16);
        }
        self.take_units(length)
    }

    pub(crate) fn give(&mut self, block: Block) {
        match block {
            Block::Empty => {}
            Block::Slot { slab, at, .. } => self.slabs.give(slab, at, &mut self.runs),
            Block::Run { unit, length } => {
                self.runs.give(Run { first: unit, units: units_of(length) });
            }
            Block::Many(extents) => {
                self.extents_heap -= extents.heap();
                extents.ranges.iter().for_each(|range| self.runs.give(run_of(*range)));
            }
        }
    }

    /// A short value: a slot of its class, else scattered units, else a slot that is too large.
    /// The last wastes memory, but less than evicting a value whose slot is of no use here.
    fn take_short(&mut self, length: u16) -> Result<Block, Lack> {
        if let Some(block) = self.slabs.take(length, &mut self.runs) {
            return Ok(block);
        }
        if u64::from(length) > UNIT
            && let Ok(block) = self.take_units(u64::from(length))
        {
            return Ok(block);
        }
        self.slabs.borrow(length).ok_or_else(|| self.lack(1))
    }

    /// A value in units of its own, in one run if possible.
    fn take_units(&mut self, length: u64) -> Result<Block, Lack> {
        let units = units_of(length);
        if units > self.runs.free() {
            return Err(self.lack(u64::from(units - self.runs.free()) * UNIT));
        }
        match self.runs.take(units) {
            Some(run) => Ok(Block::Run { unit: run.first, length }),
            None => Ok(self.take_extents(units, length)),
        }
    }

    /// The longest runs first, so that they are few; the last piece from where it fits best.
    fn take_extents(&mut self, units: u32, length: u64) -> Block {
        let (mut units_left, mut bytes_left) = (units, length);
        let mut ranges = Vec::new();
        while units_left > 0 {
            let run = self.runs.take_up_to(units_left).expect("as many units are free");
            let bytes = bytes_left.min(u64::from(run.units) * UNIT);
            ranges.push(Range { offset: u64::from(run.first) * UNIT, length: bytes });
            units_left -= run.units;
            bytes_left -= bytes;
        }
        let extents = Box::new(Extents { length, ranges: ranges.into() });
        self.extents_heap += extents.heap();
        Block::Many(extents)
    }

    fn lack(&self, missing: u64) -> Lack {
        Lack::Now { missing, scattered: self.slabs.idle_bytes() > self.bytes() / 8 }
    }

    /// The slabs to empty for this many bytes, or for a 64th of the pool if that is more: whoever
    /// empties them must look at all entries, which is to be worth it.
    pub(crate) fn sparsest(&self, bytes: u64) -> Sparse {
        Sparse::choose(&self.slabs, units_of(bytes).max(self.runs.units() / 64))
    }

    /// The size of the pool.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.runs.units()) * UNIT
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        u64::from(self.runs.free()) * UNIT
    }

    pub(crate) fn largest_free(&self) -> u64 {
        u64::from(self.runs.longest()) * UNIT
    }

    pub(crate) fn heap(&self) -> usize {
        self.runs.heap() + self.slabs.heap() + self.extents_heap
    }
}

/// What runs are made of.
const UNIT: u64 = 4096;

/// How many units this many bytes take; the pool has no more than fit.
fn units_of(bytes: u64) -> u32 {
    bytes.div_ceil(UNIT) as u32
}

fn run_of(range: Range) -> Run {
    Run { first: (range.offset / UNIT) as u32, units: units_of(range.length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_no_bytes_takes_none() {
        let mut pool = Pool::new(0);
        assert_eq!(pool.take(0).unwrap().length(), 0);
        assert_eq!(pool.take(1).unwrap_err(), Lack::Ever { most: 0 });
    }

    #[test]
    fn scattered_memory_still_holds_a_long_value() {
        let mut pool = Pool::new(64 * UNIT);
        let blocks: Vec<Block> = (0..64).map(|_| pool.take_units(UNIT).unwrap()).collect();
        for (number, block) in blocks.into_iter().enumerate() {
            if number % 2 == 0 {
                pool.give(block);
            }
        }
        let block = pool.take(32 * UNIT - 5).unwrap();
        let ranges = block.ranges();
        assert_eq!(ranges.as_slice().len(), 32);
        assert_eq!(ranges.as_slice().iter().map(|range| range.length).sum::<u64>(), 32 * UNIT - 5);
        assert_eq!(pool.free_bytes(), 0);
        assert_eq!(
            pool.take(UNIT * 9).unwrap_err(),
            Lack::Now { missing: 9 * UNIT, scattered: false }
        );
        pool.give(block);
        assert_eq!(pool.free_bytes(), 32 * UNIT);
        assert_eq!(pool.largest_free(), UNIT);
    }

    #[test]
    fn a_short_value_is_placed_where_only_single_units_are_free() {
        let mut pool = Pool::new(8 * UNIT);
        let mut blocks: Vec<Block> = (0..8).map(|_| pool.take_units(UNIT).unwrap()).collect();
        pool.give(blocks.remove(5));
        pool.give(blocks.remove(2));
        assert!(matches!(pool.take(100).unwrap(), Block::Slot { .. }));
        pool.give(blocks.remove(0));
        assert!(matches!(pool.take(8000).unwrap(), Block::Many(_)));
        assert!(matches!(pool.take(90).unwrap(), Block::Slot { .. }), "in a slot for 104");
        assert_eq!(pool.take(8000).unwrap_err(), pool.lack(1));
    }
}
