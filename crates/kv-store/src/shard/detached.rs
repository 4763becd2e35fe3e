//! Values whose key was replaced or removed while they were pinned.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::pool::Block;

/// Values that were replaced or removed while pinned, by their unique version. Each stays
/// here until its last unpin.
#[derive(Debug)]
pub(crate) struct Detached(HashMap<u64, (Block, u32), FixedState>);

impl Detached {
    pub(super) fn new() -> Detached {
        Detached(HashMap::with_hasher(FixedState::default()))
    }

    pub(super) fn insert(&mut self, version: u64, block: Block, pins: u32) {
        self.0.insert(version, (block, pins));
    }

    /// Removes a pin; returns the block with the last one.
    pub(super) fn unpin(&mut self, version: u64) -> Option<Block> {
        let (_, pins) = self.0.get_mut(&version).expect("a pin of this store, unpinned once");
        *pins -= 1;
        if *pins > 0 {
            return None;
        }
        let (block, _) = self.0.remove(&version)?;
        Some(block)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn heap(&self) -> usize {
        self.0.allocation_size()
    }
}
