//! The slot block: request slots and flags at the start of a client buffer. A store that maps this memory polls
//! them, so that requests and answers need no message.
//!
//! It is optional. While the store **polls** it, a client submits a batch by a [`RequestSlot`] with the offset of its
//! message, and the store completes it by a **completion flag**: the slot sequence, in the word before the
//! answers, once they are written. One answer and its completion flag share a cache line.
//!
//! Nothing is missed when the store stops polling or the client goes to sleep: in each of two pairs both sides write, fence, then
//! read what the other side writes. So at least one of them sees the other's write.
//!
//! | pair | the client writes → fence → reads | the store writes → fence → reads |
//! |---|---|---|
//! | submit, stop | its slot → [`SlotBlock::STORE`]: if 0, it sends *check slots* | `STORE` = 0 → the client's line: it serves a new slot |
//! | sleep, complete | [`SlotBlock::CLIENT`] = 1 → its completion flags: if one is set, it stays awake | the flag → the client's line: if `CLIENT` is 1, it sends an empty message |
//!
//! The client's side is `RequestSlots::announce` and `sleep` (kv-client, `request_slots.rs`, whose tests try every order of the
//! steps of both sides). The store's side is `SlotPoller` (kv-server, `slot_poller.rs`): it writes by operations (`end`; flags in
//! `Replies::completed`) or a flag directly (`Connection::send_reply`), and only after that `SlotPoller::read_client_line` fences and reads. After
//! *check slots*, and after a flag while it does not poll, it reads the line once.

/// The offsets of the words.
#[derive(Debug)]
pub struct SlotBlock;

impl SlotBlock {
    /// The bytes of the slot block.
    pub const LENGTH: usize = Self::CONSUMED + 64;
    /// The cache line that the client writes: its state, then its slots. The store reads it as a whole.
    pub const CLIENT: usize = 0;
    /// The bytes of a cache line.
    pub const LINE: usize = 64;
    /// The store's word: whether it polls.
    pub const STORE: usize = 64;
    /// The client's second word, in its own cache line: the slot sequence up to which it has consumed all answers. The
    /// store releases the values pinned for them.
    pub const CONSUMED: usize = 128;
    /// The bytes of a completion flag, before the answers of a batch that was submitted by a slot.
    pub const FLAG: usize = 8;
    /// The number of slots.
    pub const SLOTS: usize = 7;

    /// The client's state while it sleeps, or the store's while it polls; 0 otherwise.
    pub const SET: u64 = 1;

    /// The offset of the slot of a slot sequence.
    #[inline]
    pub fn slot(slot_sequence: u64) -> usize {
        Self::CLIENT + 8 * (1 + (slot_sequence % Self::SLOTS as u64) as usize)
    }
}

/// The position of a batch's message in the client buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSlot {
    /// The low bits of its slot sequence, the number of the use of a slot on this connection, from 1.
    pub slot_sequence: u16,
    /// The message's length.
    pub length: u16,
    /// Its offset, in units of 64 bytes.
    pub at: u32,
}

impl RequestSlot {
    /// The unit of [`RequestSlot::at`].
    pub const UNIT: usize = 64;

    /// Encodes the slot.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.slot_sequence) | u64::from(self.length) << 16 | u64::from(self.at) << 32
    }

    /// Decodes a slot; every word is valid.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        RequestSlot {
            slot_sequence: word as u16,
            length: (word >> 16) as u16,
            at: (word >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_round_trip_and_do_not_overlap() {
        let slot = RequestSlot { slot_sequence: 65_535, length: 1, at: u32::MAX };
        assert_eq!(RequestSlot::from_word(slot.to_word()), slot);
        let slots: std::collections::BTreeSet<_> = (1..=7).map(SlotBlock::slot).collect();
        assert_eq!(slots, (1..=7).map(|at| at * 8).collect());
        assert!(slots.iter().all(|at| (8..SlotBlock::LINE).contains(at)));
        assert!(
            SlotBlock::STORE.is_multiple_of(SlotBlock::LINE)
                && SlotBlock::CONSUMED.is_multiple_of(SlotBlock::LINE)
        );
    }
}
