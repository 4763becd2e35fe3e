//! The limits of one batch, and how much of them is used: a batch must not occupy the worker for
//! long, nor write beyond the space that its client provided.

use kv_proto::wire::{Answer, BatchHead};

#[derive(Debug, Default)]
pub(super) struct BatchLimits {
    /// The space that the client provided for the answers, and how much of it the requests need so far.
    capacity: u64,
    claimed: u64,
    /// Slices of the pool in the answers.
    slices: usize,
    /// Bytes written to or read from the client's regions.
    transferred: u64,
    /// Bytes that are checksummed.
    checksummed: u64,
}

impl BatchLimits {
    #[inline]
    pub(super) fn new(head: &BatchHead) -> Self {
        let claimed = u64::from(head.count) * Answer::LENGTH as u64;
        BatchLimits { capacity: head.capacity, claimed, ..BatchLimits::default() }
    }

    /// Claims space after the answers; `false` if the client did not provide enough.
    #[inline]
    pub(super) fn claim(&mut self, length: u64) -> bool {
        self.claimed = self.claimed.saturating_add(length);
        self.claimed <= self.capacity
    }

    /// Claims bytes to be read from the client's memory, if the limit allows it; the first put of a batch is always
    /// allowed.
    pub(super) fn claim_put_fetch(&mut self, length: u64) -> bool {
        let fits =
            self.transferred == 0 || self.transferred.saturating_add(length) <= MAX_TRANSFER_BYTES;
        self.transferred = self.transferred.saturating_add(if fits { length } else { 0 });
        fits
    }

    /// How many of the wanted bytes may be sent now; the client requests the rest again. The first checksum of a batch may
    /// be of any length.
    pub(super) fn allow(&mut self, wanted: u64, to_region: bool, checksum: bool) -> u64 {
        let mut allowed = wanted;
        if to_region {
            allowed = allowed.min(MAX_TRANSFER_BYTES.saturating_sub(self.transferred));
            self.transferred += allowed;
        }
        if checksum {
            allowed = match self.checksummed {
                0 => allowed,
                bytes => allowed.min(MAX_CHECKSUM_BYTES.saturating_sub(bytes)),
            };
            self.checksummed += allowed;
        }
        allowed
    }

    /// The number of slices used.
    #[inline]
    pub(super) fn slices(&self) -> usize {
        self.slices
    }

    /// The number of slices left.
    #[inline]
    pub(super) fn slices_left(&self) -> usize {
        MAX_SLICES.saturating_sub(self.slices)
    }

    #[inline]
    pub(super) fn take_slice(&mut self) {
        self.slices += 1;
    }
}

/// Bytes that one batch may transfer to or from regions.
pub(super) const MAX_TRANSFER_BYTES: u64 = 1 << 30;
/// Bytes that one batch may checksum, unless it is a single value.
const MAX_CHECKSUM_BYTES: u64 = 64 << 20;
/// Slices of the pool in the answers of one batch; the client requests the rest again.
const MAX_SLICES: usize = 32_768;
