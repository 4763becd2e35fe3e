//! The slabs of all size classes.

use super::bins::NONE;
use super::block::Block;
use super::classes::{self, class_of, slab_units, slot_bytes};
use super::runs::{Run, Runs};
use super::slab::Slab;
use super::units_of;

/// The slabs of all size classes, by number. Those of a class with free slots form a list; the
/// one that was full most recently comes first, so that the others may become empty.
#[derive(Debug)]
pub(super) struct Slabs {
    slabs: Vec<Option<Slab>>,
    vacant: Vec<u32>,
    /// The first slab with a free slot, for each class.
    first: [u32; classes::COUNT],
    /// A bit for each class that has such a slab.
    open: u128,
    /// Units of all slabs of each class.
    units: [u32; classes::COUNT],
    /// Bytes of all free slots.
    idle_bytes: u64,
    /// Heap bytes of the slabs' bitmaps.
    heap: usize,
}

impl Slabs {
    pub(super) fn new() -> Slabs {
        let first = [NONE; classes::COUNT];
        let units = [0; classes::COUNT];
        let (slabs, vacant) = (Vec::new(), Vec::new());
        Slabs { slabs, vacant, first, open: 0, units, idle_bytes: 0, heap: 0 }
    }

    /// Allocates a slot of the class for this length, in a new slab if needed.
    pub(super) fn take(&mut self, length: u16, runs: &mut Runs) -> Option<Block> {
        let class = class_of(length);
        if self.first[class] == NONE {
            self.open(class, runs)?;
        }
        Some(self.slot(class, length))
    }

    /// Allocates a slot of the class for this length, if a slab has one.
    pub(super) fn take_free(&mut self, length: u16) -> Option<Block> {
        let class = class_of(length);
        (self.first[class] != NONE).then(|| self.slot(class, length))
    }

    /// Allocates a slot of a larger class, up to twice the length.
    pub(super) fn take_larger(&mut self, length: u16) -> Option<Block> {
        let greater = self.open & (!0 << class_of(length));
        let class = greater.trailing_zeros() as usize;
        let fits = class < classes::COUNT && slot_bytes(class) <= 2 * u32::from(length);
        fits.then(|| self.slot(class, length))
    }

    /// Frees a slot; an empty slab frees its run.
    pub(super) fn release(&mut self, slab: u32, at: u64, runs: &mut Runs) {
        let was_full = self[slab].is_full();
        self[slab].release(at);
        self.idle_bytes += u64::from(self[slab].slot_bytes);
        if was_full {
            self.link(slab);
        }
        if self[slab].is_empty() {
            self.unlink(slab);
            let empty = self.slabs[slab as usize].take().expect("it was in use");
            self.heap -= empty.heap();
            self.idle_bytes -= empty.idle_bytes();
            self.units[usize::from(empty.class)] -= empty.run.units;
            self.vacant.push(slab);
            runs.release(empty.run);
        }
    }

    /// All slabs, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Slab)> {
        let slabs = self.slabs.iter().enumerate();
        slabs.filter_map(|(number, slab)| Some((number, slab.as_ref()?)))
    }

    /// All numbers are below this.
    pub(super) fn end(&self) -> usize {
        self.slabs.len()
    }

    pub(super) fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }

    pub(super) fn heap(&self) -> usize {
        self.heap
            + self.slabs.capacity() * size_of::<Option<Slab>>()
            + self.vacant.capacity() * size_of::<u32>()
    }

    fn slot(&mut self, class: usize, length: u16) -> Block {
        let slab = self.first[class];
        let at = self[slab].take().expect("listed slabs have free slots");
        self.idle_bytes -= u64::from(self[slab].slot_bytes);
        if self[slab].is_full() {
            self.unlink(slab);
        }
        Block::Slot { length, slab, at }
    }

    /// Creates a slab of the right length, or a shorter one if free memory is fragmented.
    fn open(&mut self, class: usize, runs: &mut Runs) -> Option<()> {
        let run = find_run(class, slab_units(class, self.units[class]), runs)?;
        self.units[class] += run.units;
        let slab = Slab::new(run, class as u8, slot_bytes(class));
        self.heap += slab.heap();
        self.idle_bytes += slab.idle_bytes();
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.slabs.push(None);
            self.slabs.len() as u32 - 1
        });
        self.slabs[number as usize] = Some(slab);
        self.link(number);
        Some(())
    }

    fn link(&mut self, slab: u32) {
        let class = usize::from(self[slab].class);
        let next = std::mem::replace(&mut self.first[class], slab);
        self[slab].next = next;
        self[slab].previous = NONE;
        if next != NONE {
            self[next].previous = slab;
        }
        self.open |= 1 << class;
    }

    fn unlink(&mut self, slab: u32) {
        let Slab { next, previous, class, .. } = self[slab];
        if next != NONE {
            self[next].previous = previous;
        }
        if previous != NONE {
            self[previous].next = next;
            return;
        }
        self.first[usize::from(class)] = next;
        if next == NONE {
            self.open &= !(1 << class);
        }
    }
}

impl std::ops::Index<u32> for Slabs {
    type Output = Slab;

    fn index(&self, slab: u32) -> &Slab {
        self.slabs[slab as usize].as_ref().expect("the number of a slab in use")
    }
}

impl std::ops::IndexMut<u32> for Slabs {
    fn index_mut(&mut self, slab: u32) -> &mut Slab {
        self.slabs[slab as usize].as_mut().expect("the number of a slab in use")
    }
}

/// A run for a slab: its length is halved until one is found, down to one slot.
fn find_run(class: usize, mut units: u32, runs: &mut Runs) -> Option<Run> {
    let min = units_of(u64::from(slot_bytes(class)));
    loop {
        if let Some(run) = runs.take(units) {
            return Some(run);
        }
        if units <= min {
            return None;
        }
        units = (units / 2).max(min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slab_is_released() {
        let mut runs = Runs::new(64);
        let mut slabs = Slabs::new();
        let blocks: Vec<Block> = (0..2000).map(|_| slabs.take(100, &mut runs).unwrap()).collect();
        assert_eq!(runs.free(), 0, "630 slots in each of four slabs");
        for block in blocks {
            let Block::Slot { slab, at, length: 100 } = block else {
                panic!("not a slot: {block:?}")
            };
            slabs.release(slab, at, &mut runs);
        }
        assert_eq!((runs.free(), runs.longest(), slabs.idle_bytes, slabs.heap), (64, 64, 0, 0));
    }

    #[test]
    fn a_larger_slot_is_at_most_twice_as_long() {
        let mut runs = Runs::new(1);
        let mut slabs = Slabs::new();
        assert!(slabs.take(200, &mut runs).is_some());
        assert!(slabs.take(100, &mut runs).is_none());
        assert!(slabs.take_larger(50).is_none());
        assert!(slabs.take_larger(104).is_some());
    }
}
