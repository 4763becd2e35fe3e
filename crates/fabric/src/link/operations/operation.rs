//! An operation of the caller's that is not one operation of one lane: longer, answered, or done again.
//!
//! It is over when all its bytes are in pieces, all pieces and messages are back, and its answer came, if it has one.

use std::ops::Range;
use std::time::Instant;

use super::part::Piece;
use crate::link::messages::Message;
use crate::link::protocol::header::{Body, Change};
use crate::op::{Done, Failure, Op, Pieces, Work};
use crate::region::{Region, Slice};
use crate::remote::{Target, Window};

pub(in crate::link) struct Operation {
    /// The caller's, kept here until it is over.
    op: Op,
    total: u64,
    /// How many of its bytes went into pieces or parts so far.
    cut: u64,
    /// Pieces that are not placed yet, on a lane or to be done again.
    pieces: u32,
    /// Messages that have not arrived yet.
    messages: u32,
    tail: Tail,
    failure: Option<Failure>,
    /// Whether anything of it ever was on a lane: if not, it did not happen.
    begun: bool,
    /// How often a device refused it by itself.
    refusals: u8,
    /// When it was posted, if it is timed.
    timed: Option<Instant>,
}

/// What is left to do when the bytes are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    Nothing,
    /// To send the immediate data of a write.
    Notice,
    /// To receive from the peer what was there before.
    Answer,
}

/// What comes next for an operation whose bytes are placed.
pub(in crate::link) enum Next {
    /// Messages are yet to arrive, or the answer.
    Wait,
    /// The immediate data of a write.
    Notice,
    Finish(Result<Done, Failure>),
}

impl Operation {
    pub(in crate::link) fn new(op: Op, timed: Option<Instant>) -> Self {
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
            timed,
        }
    }

    /// One that a lane had as it was, and lost: all of it is one piece, to be done again.
    pub(in crate::link) fn lost(op: Op, failure: Failure) -> Self {
        let mut operation = Operation::new(op, None);
        operation.cut_all();
        operation.begun = true;
        operation.count_refusal(failure);
        operation
    }

    pub(in crate::link) fn total(&self) -> u64 {
        self.total
    }

    pub(in crate::link) fn work(&self) -> &Work {
        &self.op.work
    }

    /// The peer's region that it writes or reads.
    #[inline]
    pub(in crate::link) fn region(&self) -> Option<u64> {
        self.op.work.target().and_then(|target| target.window.region())
    }

    /// Whether immediate data follows its bytes.
    pub(in crate::link) fn has_notice(&self) -> bool {
        self.tail == Tail::Notice
    }

    pub(in crate::link) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    // Pieces.

    /// All of it is one piece.
    pub(in crate::link) fn cut_all(&mut self) {
        (self.cut, self.pieces) = (self.total, 1);
    }

    /// The next piece, at most so long.
    pub(super) fn cut(&mut self, number: u32, chunk: u64) -> Piece {
        let length = (self.total - self.cut).min(chunk);
        let piece = Piece { operation: number, offset: self.cut, length };
        self.pieces += 1;
        self.cut += length;
        piece
    }

    pub(super) fn uncut(&mut self, piece: &Piece) {
        self.pieces -= 1;
        self.cut -= piece.length;
    }

    /// Whether all of it is in pieces.
    pub(super) fn is_cut(&self) -> bool {
        self.cut == self.total
    }

    /// A piece goes to a lane by which the peer's region is `window`.
    pub(in crate::link) fn begin_piece(&mut self, piece: &Piece, window: Window) -> Work {
        self.begun = true;
        let local = cut(self.op.work.local(), piece.offset, piece.length);
        let offset = self.op.work.target().map_or(0, |target| target.offset) + piece.offset;
        let target = Target { window, offset };
        match self.op.work {
            Work::Read { .. } => Work::Read { into: local, from: target },
            _ => Work::Write { from: local, to: target, imm: None },
        }
    }

    pub(in crate::link) fn piece_placed(&mut self) {
        self.pieces -= 1;
    }

    /// Whether pieces are not placed yet.
    pub(in crate::link) fn has_pieces(&self) -> bool {
        self.pieces > 0
    }

    /// Whether all its bytes are placed, or will never be.
    pub(in crate::link) fn is_placed(&self) -> bool {
        self.pieces == 0 && self.cut >= self.total
    }

    /// A piece cannot be, so that no others are begun.
    pub(super) fn abandon(&mut self, failure: Failure) {
        self.pieces -= 1;
        self.failure.get_or_insert(failure);
        self.cut = self.total;
    }

    /// A lane has lost a piece of it; `false`: a device refuses it too often, which is its own fault.
    pub(in crate::link) fn may_be_done_again(&mut self, failure: Failure) -> bool {
        self.count_refusal(failure);
        self.refusals < MAX_REFUSALS
    }

    fn count_refusal(&mut self, failure: Failure) {
        self.refusals += u8::from(failure == Failure::Local);
    }

    // Messages.

    /// Its bytes are placed, or go before on an ordered lane: now the immediate data follows.
    pub(in crate::link) fn begin_notice(&mut self) {
        self.tail = Tail::Nothing;
        self.messages += 1;
    }

    /// Its next message, with at most so much payload, and whether that is the last. `number` is its own.
    pub(in crate::link) fn next_message(&mut self, number: u32, limit: u64) -> (Message, bool) {
        let plain = |body| (Message { body, operation: None, payload: 0 }, true);
        self.begun = true;
        match &self.op.work {
            Work::Send { imm, .. } => {
                let (total, offset) = (self.total, self.cut);
                let length = (total - offset).min(limit);
                self.cut += length;
                self.messages += 1;
                let body = Body::Part { total, offset, imm: *imm };
                let message = Message { body, operation: Some(number), payload: length };
                (message, self.cut == total)
            }
            Work::FetchAdd { at, add, .. } => plain(change(number, at, Change::Add(*add))),
            Work::CompareSwap { at, expect, new, .. } => {
                plain(change(number, at, Change::Swap { expect: *expect, new: *new }))
            }
            Work::Write { imm, .. } => {
                let body = Body::Notice { length: self.total, imm: imm.unwrap_or(0) };
                (Message { body, operation: Some(number), payload: 0 }, true)
            }
            Work::Read { .. } | Work::Receive { .. } => plain(Body::Void),
        }
    }

    pub(in crate::link) fn message_arrived(&mut self) {
        self.messages -= 1;
    }

    /// Whether the peer was asked, and its answer is expected.
    pub(in crate::link) fn awaits_answer(&self) -> bool {
        self.tail == Tail::Answer && self.begun
    }

    /// What comes next, once its bytes are placed.
    pub(in crate::link) fn next(&self) -> Next {
        match (self.failure, self.tail) {
            _ if self.messages > 0 => Next::Wait,
            (Some(failure), _) => Next::Finish(Err(failure)),
            (None, Tail::Nothing) => Next::Finish(Ok(Done::Placed)),
            (None, Tail::Notice) => Next::Notice,
            (None, Tail::Answer) => Next::Wait,
        }
    }

    // The end.

    /// The caller's again, and since when it is timed.
    pub(in crate::link) fn into_op(self) -> (Op, Option<Instant>) {
        (self.op, self.timed)
    }

    /// How it failed for sure, though the link ended: nothing of it was begun.
    pub(in crate::link) fn known_failure(&self) -> Option<Failure> {
        self.failure.filter(|_| !self.begun)
    }

    /// Whether anything of it ever was on a lane.
    pub(in crate::link) fn is_begun(&self) -> bool {
        self.begun
    }
}

fn change(number: u32, at: &Target, change: Change) -> Body {
    let region = at.window.region().unwrap_or(0);
    Body::Change { request: number, region, offset: at.offset, change }
}

/// `length` bytes from `offset` on, of memory in several pieces.
fn cut(slices: &[Slice], offset: u64, length: u64) -> Pieces {
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

/// How often a device may refuse an operation before it is the operation's fault.
const MAX_REFUSALS: u8 = 3;

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
