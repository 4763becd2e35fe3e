//! Operations of the caller's that are not one operation of one lane: longer, answered, or done again.

use std::ops::Range;
use std::time::Instant;

use super::part::Piece;
use crate::op::{Failure, Op, Pieces, Work};
use crate::region::{Region, Slice};
use crate::remote::{Target, Window};

pub(in crate::link) struct Operation {
    /// The caller's, kept here until it is over.
    pub(in crate::link) op: Op,
    pub(in crate::link) total: u64,
    /// How many of its bytes went into pieces or parts so far.
    pub(in crate::link) cut: u64,
    /// Pieces that are not placed yet, on a lane or to be done again.
    pub(in crate::link) pieces: u32,
    /// Messages that have not arrived yet.
    pub(in crate::link) messages: u32,
    pub(in crate::link) tail: Tail,
    pub(in crate::link) failure: Option<Failure>,
    /// Whether anything of it ever was on a lane: if not, it did not happen.
    pub(in crate::link) begun: bool,
    /// How often a device refused it by itself.
    pub(in crate::link) refusals: u8,
    /// When it was posted, if it is timed.
    pub(in crate::link) timed: Option<Instant>,
}

/// What is left to do when the bytes are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Tail {
    Nothing,
    /// To tell the peer the number of a write.
    Notice,
    /// To hear from the peer what was there before.
    Answer,
}

impl Operation {
    pub(in crate::link) fn new(op: Op) -> Self {
        let tail = match op.work {
            Work::Write { imm: Some(_), .. } => Tail::Notice,
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => Tail::Answer,
            _ => Tail::Nothing,
        };
        Operation {
            total: op.work.total() as u64,
            op,
            cut: 0,
            pieces: 0,
            messages: 0,
            tail,
            failure: None,
            begun: false,
            refusals: 0,
            timed: None,
        }
    }

    /// The peer's region that it writes or reads.
    #[inline]
    pub(in crate::link) fn region(&self) -> Option<u64> {
        self.op.work.target().and_then(|target| target.window.region())
    }

    /// A piece of it, for a lane by which the peer's region is `window`.
    pub(in crate::link) fn work(&self, piece: &Piece, window: Window) -> Work {
        let local = cut(self.op.work.local(), piece.offset, piece.length);
        let offset = self.op.work.target().map_or(0, |target| target.offset) + piece.offset;
        let target = Target { window, offset };
        match self.op.work {
            Work::Read { .. } => Work::Read { into: local, from: target },
            _ => Work::Write { from: local, to: target, imm: None },
        }
    }
}

/// `length` bytes from `offset` on, of memory in several pieces.
pub(in crate::link) fn cut(slices: &[Slice], offset: u64, length: u64) -> Pieces {
    if let [one] = slices {
        let begin = one.offset() + offset as usize;
        return Pieces::One(one.region().slice(begin..begin + length as usize));
    }
    Pieces::Many(runs(slices, offset, length).map(|(region, run)| region.slice(run)).collect())
}

/// The same bytes one run after the other: of which region, and where there.
#[inline]
pub(in crate::link) fn runs(
    slices: &[Slice],
    offset: u64,
    length: u64,
) -> impl Iterator<Item = (&Region, Range<usize>)> {
    let (mut skip, mut left) = (offset, length);
    slices.iter().filter_map(move |slice| {
        let size = slice.len() as u64;
        let before = skip.min(size);
        let take = left.min(size - before);
        (skip, left) = (skip - before, left - take);
        let begin = slice.offset() + before as usize;
        (take > 0).then(|| (slice.region(), begin..begin + take as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::register_software;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;

    #[test]
    fn pieces_of_pieces_are_the_same_bytes() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let bytes: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
        memory.write(0, &bytes);
        let region = register_software(&memory, Rights::NONE);
        let slices = [region.slice(10..20), region.slice(100..100), region.slice(7..50)];
        let whole: Vec<u8> = slices.iter().flat_map(Slice::to_vec).collect();
        for offset in 0..whole.len() {
            for length in 0..=whole.len() - offset {
                let pieces = cut(&slices, offset as u64, length as u64);
                let bytes: Vec<u8> = pieces.as_slice().iter().flat_map(Slice::to_vec).collect();
                assert_eq!(bytes, whole[offset..offset + length]);
            }
        }
    }
}
