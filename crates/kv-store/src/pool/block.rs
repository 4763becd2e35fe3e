//! A block: the memory of one value.

use std::sync::Arc;

use super::UNIT;
use crate::{Range, Ranges};

/// The memory of one value, and its length. It is neither copied nor dropped but given back.
///
/// There is one in each entry of the index, so it has 16 bytes: the length is kept where the kind
/// of block leaves room for it.
#[derive(Debug)]
pub(crate) enum Block {
    /// A value of no bytes.
    Empty,
    /// One slot of a slab.
    Slot { length: u16, slab: u32, at: u64 },
    /// Whole units that lie together.
    Run { unit: u32, length: u64 },
    /// Whole units that do not.
    Many(Box<Extents>),
}

/// What a block of several extents keeps apart from the entry, because it is rare.
#[derive(Debug)]
pub(crate) struct Extents {
    pub(super) length: u64,
    pub(super) ranges: Arc<[Range]>,
}

impl Block {
    /// Bytes of the value.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Block::Empty => 0,
            Block::Slot { length, .. } => u64::from(*length),
            Block::Run { length, .. } => *length,
            Block::Many(extents) => extents.length,
        }
    }

    pub(crate) fn ranges(&self) -> Ranges {
        match self {
            Block::Empty => Ranges::One(Range { offset: 0, length: 0 }),
            Block::Slot { length, at, .. } => {
                Ranges::One(Range { offset: *at, length: u64::from(*length) })
            }
            Block::Run { unit, length } => {
                Ranges::One(Range { offset: u64::from(*unit) * UNIT, length: *length })
            }
            Block::Many(extents) => Ranges::Many(Arc::clone(&extents.ranges)),
        }
    }
}

impl Extents {
    /// Bytes on the heap: this, and the ranges behind their two counts.
    pub(super) fn heap(&self) -> usize {
        size_of::<Extents>() + 2 * size_of::<usize>() + size_of_val(&*self.ranges)
    }
}

const _: () = assert!(size_of::<Block>() == 16);
