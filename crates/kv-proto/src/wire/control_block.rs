//! The control block: words in a client's receive buffer that a store which maps this memory polls, so that requests
//! and answers need no message.
//!
//! A client may have one, at the beginning of its receive buffer. While the store **watches** it, a batch is asked for by
//! a [`RequestSlot`] of where its message lies, and answered by a **completion flag**: the slot's sequence, in the word before the
//! answers, once they are placed. One answer and its completion flag share a cache line. Each side writes, then
//! checks whether the other side still watches, and sends a message if it does not: so nothing is missed when one of
//! them goes to sleep.

/// Where the words are.
#[derive(Debug)]
pub struct ControlBlock;

impl ControlBlock {
    /// How many bytes of the receive buffer it takes.
    pub const LENGTH: usize = Self::TAKEN + 64;
    /// The cache line that the client writes: its state, then its slots. The store reads it as a whole.
    pub const CLIENT: usize = 0;
    /// How long that is.
    pub const LINE: usize = 64;
    /// The store's word: whether it watches.
    pub const STORE: usize = 64;
    /// The client's second word, in a cache line of its own: the sequence up to which it has taken all answers. The
    /// store releases what it pinned for them.
    pub const TAKEN: usize = 128;
    /// How long a completion flag is, which stands before the answers of a batch that was announced.
    pub const FLAG: usize = 8;
    /// How many slots there are.
    pub const SLOTS: usize = 7;

    /// The client's state while it sleeps, or the store's while it watches; 0 otherwise.
    pub const YES: u64 = 1;

    /// Where the slot of a sequence is.
    #[inline]
    pub fn slot(sequence: u64) -> usize {
        Self::CLIENT + 8 * (1 + (sequence % Self::SLOTS as u64) as usize)
    }
}

/// Where a batch's message lies in the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSlot {
    /// The low bits of its sequence; sequences begin at 1.
    pub sequence: u16,
    /// How long it is.
    pub length: u16,
    /// Where it is, in units of 64 bytes.
    pub at: u32,
}

impl RequestSlot {
    /// What [`RequestSlot::at`] counts.
    pub const UNIT: usize = 64;

    /// As a word.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.sequence) | u64::from(self.length) << 16 | u64::from(self.at) << 32
    }

    /// From a word; every word is a slot, of some sequence.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        RequestSlot { sequence: word as u16, length: (word >> 16) as u16, at: (word >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_places_do_not_overlap() {
        let slot = RequestSlot { sequence: 65_535, length: 1, at: u32::MAX };
        assert_eq!(RequestSlot::from_word(slot.to_word()), slot);
        let slots: std::collections::BTreeSet<_> = (1..=7).map(ControlBlock::slot).collect();
        assert_eq!(slots, (1..=7).map(|at| at * 8).collect());
        assert!(slots.iter().all(|at| (8..ControlBlock::LINE).contains(at)));
        assert!(
            ControlBlock::STORE.is_multiple_of(ControlBlock::LINE)
                && ControlBlock::TAKEN.is_multiple_of(ControlBlock::LINE)
        );
    }
}
