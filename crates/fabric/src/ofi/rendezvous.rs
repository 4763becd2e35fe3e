//! Buffers for long messages, from which the peer reads them.
//!
//! The peer gets a key to this memory only: it contains nothing but messages to that peer, and it stays registered
//! until the endpoint is closed, whatever the peer reports. So a message is copied once, here instead of
//! out of the peer's slots, and the peer's device reads it directly into its receive.

use std::sync::Arc;

use super::endpoint::Remote;
use super::fid_domain::FidDomain;
use super::frame::FRAGMENT_BYTES;
use super::mr;
use crate::memory::{Memory, Pages};
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;
use crate::splitter::{Splitter, WorkRequestLimits};

pub(super) struct RendezvousBuffers {
    fid_domain: Arc<FidDomain>,
    state: State,
    blocks: Blocks,
    /// The last fragment copied and its block, to avoid copying again if its frame could not be sent.
    last_copied: Option<(usize, FragmentId)>,
}

/// The fragment in each block. A fragment occupies adjacent blocks.
#[derive(Debug, Default)]
struct Blocks([Option<FragmentId>; BLOCKS]);

/// Identifies a fragment by its message and its offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FragmentId {
    pub(super) message: u64,
    pub(super) offset: u64,
}

/// Allocated with the first long message: most lanes send none.
enum State {
    NotAllocated,
    Allocated(Arc<Mr>),
    /// Allocation or registration failed: long messages are sent like short ones.
    Unavailable,
}

impl RendezvousBuffers {
    pub(super) fn new(fid_domain: Arc<FidDomain>) -> Self {
        RendezvousBuffers {
            fid_domain,
            state: State::NotAllocated,
            blocks: Blocks::default(),
            last_copied: None,
        }
    }

    /// Whether the buffers can be used; allocates them at the first call.
    pub(super) fn is_available(&mut self) -> bool {
        if matches!(self.state, State::NotAllocated) {
            let memory = Memory::allocate(BLOCKS * BLOCK_BYTES, Pages::Plain);
            let readable = Rights { read: true, ..Rights::NONE };
            let mr =
                memory.and_then(|memory| mr::register(self.fid_domain.clone(), &memory, readable));
            self.state = mr.map_or(State::Unavailable, |mr| State::Allocated(Arc::new(mr)));
        }
        matches!(self.state, State::Allocated(_))
    }

    /// A free block for this many bytes, and its address for the peer.
    pub(super) fn find_free(&self, bytes: usize) -> Option<(usize, Remote)> {
        let State::Allocated(mr) = &self.state else { return None };
        let block = self.blocks.find_free(bytes)?;
        Some((block, Remote { address: mr.start() + (block * BLOCK_BYTES) as u64, key: mr.key() }))
    }

    /// Copies the next fragment of a message to a block, unless already done; returns whether it is the last.
    pub(super) fn copy(
        &mut self,
        block: usize,
        fragment_id: FragmentId,
        splitter: &mut Splitter,
        from: &[Slice],
    ) -> bool {
        let State::Allocated(mr) = &self.state else { return false };
        let is_copied =
            self.last_copied.replace((block, fragment_id)) == Some((block, fragment_id));
        let mut at = block * BLOCK_BYTES;
        let most = WorkRequestLimits { bytes: FRAGMENT_BYTES as u32, sges: usize::MAX };
        let fragment = splitter.next(from, most, |slice, from, length| {
            if !is_copied {
                let (memory, start) = (slice.region().memory(), slice.offset() + from);
                mr.memory().copy(at, memory, start, length as usize);
            }
            at += length as usize;
        });
        fragment.last
    }

    /// Marks the blocks of a fragment as occupied.
    pub(super) fn occupy(&mut self, block: usize, bytes: usize, fragment_id: FragmentId) {
        self.blocks.occupy(block, bytes, fragment_id);
    }

    /// The peer has read a fragment.
    pub(super) fn free_fragment(&mut self, message: u64, offset: u64) {
        self.blocks.free_where(|fragment_id| *fragment_id == FragmentId { message, offset });
    }

    /// The peer has received a message: frees its fragments, if it has any here.
    #[inline]
    pub(super) fn free_message(&mut self, message: u64) {
        if matches!(self.state, State::Allocated(_)) {
            self.blocks.free_where(|fragment_id| fragment_id.message == message);
        }
    }
}

impl Blocks {
    /// The first of enough adjacent free blocks.
    fn find_free(&self, bytes: usize) -> Option<usize> {
        let needed = bytes.div_ceil(BLOCK_BYTES);
        self.0.windows(needed).position(|blocks| blocks.iter().all(Option::is_none))
    }

    fn occupy(&mut self, block: usize, bytes: usize, fragment_id: FragmentId) {
        self.0[block..][..bytes.div_ceil(BLOCK_BYTES)].fill(Some(fragment_id));
    }

    fn free_where(&mut self, which: impl Fn(&FragmentId) -> bool) {
        for block in &mut self.0 {
            block.take_if(|fragment_id| which(fragment_id));
        }
    }
}

/// Enough for two fragments of a long message, so that the peer reads one while the next is copied, or for eight shorter messages.
/// More would be slower: the copy should be in the CPU's cache when the provider sends it.
const BLOCKS: usize = 8;
const BLOCK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_freed_when_their_part_is_read_or_their_message_received() {
        let mut blocks = Blocks::default();
        let fragment_id = |message, offset| FragmentId { message, offset };
        for fragment in 0..2 {
            let block = blocks.find_free(FRAGMENT_BYTES).unwrap();
            assert_eq!(block, fragment * FRAGMENT_BYTES / BLOCK_BYTES);
            blocks.occupy(block, FRAGMENT_BYTES, fragment_id(7, fragment as u64));
        }
        assert_eq!(blocks.find_free(1), None);
        blocks.free_where(|fragment| *fragment == fragment_id(7, 1));
        assert_eq!(
            (
                blocks.find_free(1),
                blocks.find_free(FRAGMENT_BYTES),
                blocks.find_free(FRAGMENT_BYTES + 1)
            ),
            (Some(4), Some(4), None)
        );
        blocks.free_where(|fragment| *fragment == fragment_id(7, 1));
        blocks.free_where(|fragment| *fragment == fragment_id(8, 0));
        blocks.occupy(4, BLOCK_BYTES + 1, fragment_id(8, 0));
        assert_eq!(
            (blocks.find_free(2 * BLOCK_BYTES), blocks.find_free(FRAGMENT_BYTES)),
            (Some(6), None)
        );
        blocks.free_where(|fragment| fragment.message == 7);
        assert_eq!(blocks.0.iter().flatten().count(), 2);
        blocks.free_where(|fragment| fragment.message == 8);
        assert_eq!(blocks.find_free(BLOCKS * BLOCK_BYTES), Some(0));
    }
}
