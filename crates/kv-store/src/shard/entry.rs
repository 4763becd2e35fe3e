//! An entry: one key with its value.

use super::entries::NONE;
use crate::key::StoredKey;
use crate::pool::Block;

/// One key with its value, in one cache line of 64 bytes; rare data, such as expiries, is stored
/// elsewhere.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(super) key: StoredKey,
    pub(super) block: Block,
    pub(super) version: u64,
    /// Neighbours in insertion order.
    pub(super) newer: u32,
    pub(super) older: u32,
    /// The index of its expiry in `Expiries`, or `NONE`.
    pub(super) expiry_index: u32,
    /// Pins of the current value, and in the highest bit whether it was read since SIEVE's hand passed.
    pins: u32,
}

impl Entry {
    pub(super) fn new(key: StoredKey, block: Block, version: u64) -> Entry {
        Entry { key, block, version, newer: NONE, older: NONE, expiry_index: NONE, pins: 0 }
    }

    /// Replaces the value; returns the old one with its version and pins.
    pub(super) fn replace(&mut self, block: Block, version: u64) -> (Block, u64, u32) {
        let pins = std::mem::replace(&mut self.pins, VISITED) & !VISITED;
        let version = std::mem::replace(&mut self.version, version);
        (std::mem::replace(&mut self.block, block), version, pins)
    }

    pub(super) fn pins(&self) -> u32 {
        self.pins & !VISITED
    }

    /// Adds a pin and marks the entry as visited; returns the number of pins before.
    pub(super) fn pin(&mut self) -> u32 {
        let before = self.pins();
        assert!(before < VISITED - 1, "2^31 pins of one value");
        self.pins = (before + 1) | VISITED;
        before
    }

    /// Removes a pin; returns the number left.
    pub(super) fn unpin(&mut self) -> u32 {
        debug_assert!(self.pins() > 0);
        self.pins -= 1;
        self.pins()
    }

    /// Whether it was visited since the last call.
    pub(super) fn take_visited(&mut self) -> bool {
        let visited = self.pins & VISITED != 0;
        self.pins &= !VISITED;
        visited
    }
}

const VISITED: u32 = 1 << 31;
