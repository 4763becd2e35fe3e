//! An entry: one key with its value.

use super::entries::NONE;
use crate::key::KeptKey;
use crate::pool::Block;

/// One key with its value. There is one for each key, so it is one cache line of 64 bytes; what
/// few entries have, such as the time they expire, is kept elsewhere.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(super) key: KeptKey,
    pub(super) block: Block,
    pub(super) version: u64,
    /// Neighbours in the order of arrival.
    pub(super) newer: u32,
    pub(super) older: u32,
    /// Where among the alarms its expiry is, or `NONE`.
    pub(super) alarm: u32,
    /// Pins of the current value, and in the first bit whether it was read since the hand passed.
    pins: u32,
}

impl Entry {
    pub(super) fn new(key: KeptKey, block: Block, version: u64) -> Entry {
        Entry { key, block, version, newer: NONE, older: NONE, alarm: NONE, pins: 0 }
    }

    /// Puts another value in place of the current one, which comes back with its version and pins.
    pub(super) fn replace(&mut self, block: Block, version: u64) -> (Block, u64, u32) {
        let pins = std::mem::replace(&mut self.pins, VISITED) & !VISITED;
        let version = std::mem::replace(&mut self.version, version);
        (std::mem::replace(&mut self.block, block), version, pins)
    }

    pub(super) fn pins(&self) -> u32 {
        self.pins & !VISITED
    }

    /// One more pin, by which the entry was visited too. Tells how many there were.
    pub(super) fn pin(&mut self) -> u32 {
        let before = self.pins();
        assert!(before < VISITED - 1, "2^31 pins of one value were never given back");
        self.pins = (before + 1) | VISITED;
        before
    }

    /// One pin less. Tells how many are left.
    pub(super) fn unpin(&mut self) -> u32 {
        debug_assert!(self.pins() > 0);
        self.pins -= 1;
        self.pins()
    }

    /// Whether it was visited since the last time this was asked.
    pub(super) fn take_visited(&mut self) -> bool {
        let visited = self.pins & VISITED != 0;
        self.pins &= !VISITED;
        visited
    }
}

const VISITED: u32 = 1 << 31;
