//! How much one batch may ask for, and how much of that it has used: one batch must not keep the worker from others for
//! long, nor write where its client gave no room.

use kv_proto::wire::{Answer, BatchHead};

#[derive(Debug, Default)]
pub(super) struct BatchLimits {
    /// How much room the client has given for the answers, and how much of it requests have asked for so far.
    room: u64,
    claimed: u64,
    /// In how many pieces of the pool the requests are answered.
    pieces: usize,
    /// How many bytes are written to other regions or read from there.
    moved: u64,
    /// Of how many bytes a checksum is made.
    summed: u64,
}

impl BatchLimits {
    #[inline]
    pub(super) fn new(head: &BatchHead) -> Self {
        let claimed = u64::from(head.count) * Answer::LENGTH as u64;
        BatchLimits { room: head.capacity, claimed, ..BatchLimits::default() }
    }

    /// Takes room behind the answers; `false` if the client has not given so much.
    #[inline]
    pub(super) fn claim(&mut self, length: u64) -> bool {
        self.claimed = self.claimed.saturating_add(length);
        self.claimed <= self.room
    }

    /// Takes so many bytes to be fetched, if they may be; the first of a batch may.
    pub(super) fn fetch(&mut self, length: u64) -> bool {
        let fits = self.moved == 0 || self.moved.saturating_add(length) <= MOVED;
        self.moved = self.moved.saturating_add(if fits { length } else { 0 });
        fits
    }

    /// How many of so many bytes may be answered now. Who gets less asks again; the first checksum of a batch may be of
    /// any length.
    pub(super) fn allow(&mut self, wanted: u64, apart: bool, checksum: bool) -> u64 {
        let mut allowed = wanted;
        if apart {
            allowed = allowed.min(MOVED.saturating_sub(self.moved));
            self.moved += allowed;
        }
        if checksum {
            allowed = match self.summed {
                0 => allowed,
                summed => allowed.min(SUMMED.saturating_sub(summed)),
            };
            self.summed += allowed;
        }
        allowed
    }

    /// How many pieces are used.
    #[inline]
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// How many pieces are left.
    #[inline]
    pub(super) fn pieces_left(&self) -> usize {
        MAX_PIECES.saturating_sub(self.pieces)
    }

    #[inline]
    pub(super) fn take_piece(&mut self) {
        self.pieces += 1;
    }
}

/// How many bytes of values one batch may name.
pub(super) const MOVED: u64 = 1 << 30;
/// How many bytes a batch makes checksums of, if it is more than one value.
const SUMMED: u64 = 64 << 20;
/// The most pieces of the pool that answer one batch; who asked for more asks again.
const MAX_PIECES: usize = 32_768;
