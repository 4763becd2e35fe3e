//! A block: the memory of one value.

use std::sync::Arc;

use super::UNIT_BYTES;
use super::classes::{class_of, slot_bytes};
use crate::{Range, Ranges};

/// The memory of one value, and its length. It is not `Clone`, and must be released to the pool.
///
/// Each entry of the index has one, so it is 16 bytes: the type of the length depends on the kind
/// of block.
#[derive(Debug)]
pub(crate) enum Block {
    /// A value of no bytes.
    Empty,
    /// One slot of a slab.
    Slot { length: u16, slab: u32, at: u64 },
    /// Consecutive units.
    Run { unit: u32, length: u64 },
    /// Units that are not consecutive.
    Many(Box<Extents>),
}

/// A block of several extents. Boxed, because it is rare.
#[derive(Debug)]
pub(crate) struct Extents {
    pub(super) length: u64,
    pub(super) ranges: Arc<[Range]>,
}

impl Block {
    /// The length of the value in bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Block::Empty => 0,
            Block::Slot { length, .. } => u64::from(*length),
            Block::Run { length, .. } => *length,
            Block::Many(extents) => extents.length,
        }
    }

    pub(crate) fn is_slot(&self) -> bool {
        matches!(self, Block::Slot { .. })
    }

    /// Whether it is a slot that has space for all values of the class of this length, which is at least 1.
    pub(crate) fn has_class_of(&self, other: u16) -> bool {
        matches!(self, Block::Slot { length, .. } if class_of(*length) == class_of(other))
    }

    /// The length of the class of a slot: at least as long as its value. The slot may be twice as long.
    pub(crate) fn class_bytes(&self) -> u64 {
        match self {
            Block::Slot { length, .. } => u64::from(slot_bytes(class_of(*length))),
            _ => 0,
        }
    }

    /// The same slot, for a value of another length of its class.
    pub(crate) fn for_length(self, length: u16) -> Block {
        match self {
            Block::Slot { slab, at, .. } => Block::Slot { length, slab, at },
            other => other,
        }
    }

    pub(crate) fn ranges(&self) -> Ranges {
        match self {
            Block::Empty => Ranges::One(Range { offset: 0, length: 0 }),
            Block::Slot { length, at, .. } => {
                Ranges::One(Range { offset: *at, length: u64::from(*length) })
            }
            Block::Run { unit, length } => {
                Ranges::One(Range { offset: u64::from(*unit) * UNIT_BYTES, length: *length })
            }
            Block::Many(extents) => Ranges::Many(Arc::clone(&extents.ranges)),
        }
    }
}

impl Extents {
    /// Bytes on the heap: this, and the ranges with the two counts of their `Arc`.
    pub(super) fn heap(&self) -> usize {
        size_of::<Extents>() + 2 * size_of::<usize>() + size_of_val(&*self.ranges)
    }
}

const _: () = assert!(size_of::<Block>() == 16);
