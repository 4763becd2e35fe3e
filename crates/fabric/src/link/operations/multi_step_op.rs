//! A multi-step operation: one of the caller that is not a single operation of one lane. It is long, has an answer, or is
//! repeated.
//!
//! It is finished when all its bytes are in chunks, all chunks and messages have completed, and the answer has arrived,
//! if it has one.

use std::ops::Range;
use std::time::Instant;

use super::lane_op::Chunk;
use crate::link::messages::Message;
use crate::link::protocol::header::{AtomicOp, Body};
use crate::op::{Done, Failure, Op, Slices, Work};
use crate::region::{Region, Slice};
use crate::remote::{Target, Window};

pub(in crate::link) struct MultiStepOp {
    /// The caller's operation, returned when it is finished.
    op: Op,
    total: u64,
    /// The number of bytes in chunks or messages so far.
    split: u64,
    /// The number of chunks that are not placed yet, in flight or to be posted again.
    chunks: u32,
    /// The number of messages that are not delivered yet.
    messages: u32,
    followup: Followup,
    failure: Option<Failure>,
    /// Whether any part of it was ever posted: if not, it had no effect.
    started: bool,
    /// The number of times that a local device refused it.
    refusals: u8,
    /// When it was posted, if it is timed.
    timed: Option<Instant>,
}

/// The step that follows when the bytes are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followup {
    Nothing,
    /// Send the immediate data of a write.
    WriteImm,
    /// Receive the old value from the peer.
    Answer,
}

/// The next action for an operation whose bytes are placed.
pub(in crate::link) enum NextStep {
    /// Messages are not delivered yet, or the answer has not arrived.
    Wait,
    /// Send the immediate data of a write.
    WriteImm,
    Finish(Result<Done, Failure>),
}

impl MultiStepOp {
    pub(in crate::link) fn new(op: Op, timed: Option<Instant>) -> Self {
        let followup = match op.work {
            Work::Write { imm: Some(_), .. } => Followup::WriteImm,
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => Followup::Answer,
            _ => Followup::Nothing,
        };
        MultiStepOp {
            total: op.work.total() as u64,
            op,
            split: 0,
            chunks: 0,
            messages: 0,
            followup,
            failure: None,
            started: false,
            refusals: 0,
            timed,
        }
    }

    /// A send whose only message was sent, and is sent again.
    pub(in crate::link) fn sent(op: Op, timed: Option<Instant>) -> Self {
        let total = op.work.total() as u64;
        MultiStepOp {
            op,
            total,
            split: total,
            chunks: 0,
            messages: 1,
            followup: Followup::Nothing,
            failure: None,
            started: true,
            refusals: 0,
            timed,
        }
    }

    /// An operation that a lane had whole, and lost: one chunk, to be posted again.
    pub(in crate::link) fn lost(op: Op, failure: Failure) -> Self {
        let mut operation = MultiStepOp::new(op, None);
        operation.make_one_chunk();
        operation.started = true;
        operation.count_refusal(failure);
        operation
    }

    pub(in crate::link) fn total(&self) -> u64 {
        self.total
    }

    pub(in crate::link) fn work(&self) -> &Work {
        &self.op.work
    }

    /// The peer's region that it accesses.
    #[inline]
    pub(in crate::link) fn region(&self) -> Option<u64> {
        self.op.work.target().and_then(|target| target.window.region())
    }

    /// Whether immediate data follows its bytes.
    pub(in crate::link) fn has_imm(&self) -> bool {
        self.followup == Followup::WriteImm
    }

    pub(in crate::link) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    // Chunks.

    /// Makes all of it one chunk.
    pub(in crate::link) fn make_one_chunk(&mut self) {
        (self.split, self.chunks) = (self.total, 1);
    }

    /// The next chunk, of at most `max_length` bytes.
    pub(super) fn next_chunk(&mut self, row: u32, max_length: u64) -> Chunk {
        let length = (self.total - self.split).min(max_length);
        let chunk = Chunk { operation: row, offset: self.split, length };
        self.chunks += 1;
        self.split += length;
        chunk
    }

    pub(super) fn undo_chunk(&mut self, chunk: &Chunk) {
        self.chunks -= 1;
        self.split -= chunk.length;
    }

    /// Whether all of it is in chunks.
    pub(super) fn is_split(&self) -> bool {
        self.split == self.total
    }

    /// The work of a chunk, for a lane on which the peer's region is `window`.
    pub(in crate::link) fn start_chunk(&mut self, chunk: &Chunk, window: Window) -> Work {
        self.started = true;
        let local = sub_slices(self.op.work.local(), chunk.offset, chunk.length);
        let offset = self.op.work.target().map_or(0, |target| target.offset) + chunk.offset;
        let target = Target { window, offset };
        match self.op.work {
            Work::Read { .. } => Work::Read { into: local, from: target },
            _ => Work::Write { from: local, to: target, imm: None },
        }
    }

    pub(in crate::link) fn chunk_placed(&mut self) {
        self.chunks -= 1;
    }

    /// Whether chunks are not placed yet.
    pub(in crate::link) fn has_chunks(&self) -> bool {
        self.chunks > 0
    }

    /// Whether all its bytes are placed, or abandoned.
    pub(in crate::link) fn is_placed(&self) -> bool {
        self.chunks == 0 && self.split >= self.total
    }

    /// A chunk cannot be posted: there are no further ones.
    pub(super) fn abandon(&mut self, failure: Failure) {
        self.chunks -= 1;
        self.failure.get_or_insert(failure);
        self.split = self.total;
    }

    /// A lane has lost a chunk; `false`: a device refused it too often, so that the operation itself is the cause.
    pub(in crate::link) fn may_retry(&mut self, failure: Failure) -> bool {
        self.count_refusal(failure);
        self.refusals < MAX_REFUSALS
    }

    fn count_refusal(&mut self, failure: Failure) {
        self.refusals += u8::from(failure == Failure::Local);
    }

    // Messages.

    /// The immediate data follows now: the bytes are placed, or posted before it on an ordered lane.
    pub(in crate::link) fn start_write_imm(&mut self) {
        self.followup = Followup::Nothing;
        self.messages += 1;
    }

    /// Its next message, with at most `limit` bytes of payload, and whether it is the last. `row` is the operation's.
    pub(in crate::link) fn next_message(&mut self, row: u32, limit: u64) -> (Message, bool) {
        let plain = |body| (Message { body, operation: None, payload: 0 }, true);
        self.started = true;
        match &self.op.work {
            Work::Send { imm, .. } => {
                let (total, offset) = (self.total, self.split);
                let length = (total - offset).min(limit);
                self.split += length;
                self.messages += 1;
                let body = Body::Fragment { total, offset, imm: *imm };
                let message = Message { body, operation: Some(row), payload: length };
                (message, self.split == total)
            }
            Work::FetchAdd { at, add, .. } => plain(atomic_request(row, at, AtomicOp::Add(*add))),
            Work::CompareSwap { at, expect, new, .. } => {
                plain(atomic_request(row, at, AtomicOp::Swap { expect: *expect, new: *new }))
            }
            Work::Write { imm, .. } => {
                let body = Body::WriteImm { length: self.total, imm: imm.unwrap_or(0) };
                (Message { body, operation: Some(row), payload: 0 }, true)
            }
            Work::Read { .. } | Work::Receive { .. } => plain(Body::Void),
        }
    }

    pub(in crate::link) fn message_delivered(&mut self) {
        self.messages -= 1;
    }

    /// Whether a request was sent, and its answer is expected.
    pub(in crate::link) fn awaits_answer(&self) -> bool {
        self.followup == Followup::Answer && self.started
    }

    /// The next action, once its bytes are placed.
    pub(in crate::link) fn next(&self) -> NextStep {
        match (self.failure, self.followup) {
            _ if self.messages > 0 => NextStep::Wait,
            (Some(failure), _) => NextStep::Finish(Err(failure)),
            (None, Followup::Nothing) => NextStep::Finish(Ok(Done::Placed)),
            (None, Followup::WriteImm) => NextStep::WriteImm,
            (None, Followup::Answer) => NextStep::Wait,
        }
    }

    // The end.

    /// The caller's operation, and the time when it was posted, if it is timed.
    pub(in crate::link) fn into_op(self) -> (Op, Option<Instant>) {
        (self.op, self.timed)
    }

    /// The failure of an operation of which nothing was posted: it is certain, although the link ended.
    pub(in crate::link) fn known_failure(&self) -> Option<Failure> {
        self.failure.filter(|_| !self.started)
    }

    /// Whether any part of it was ever posted.
    pub(in crate::link) fn is_started(&self) -> bool {
        self.started
    }
}

fn atomic_request(row: u32, at: &Target, op: AtomicOp) -> Body {
    let region = at.window.region().unwrap_or(0);
    Body::Atomic { request: row, region, offset: at.offset, op }
}

/// `length` bytes at `offset` of memory in several slices.
fn sub_slices(slices: &[Slice], offset: u64, length: u64) -> Slices {
    if let [one] = slices {
        let begin = one.offset() + offset as usize;
        return Slices::One(one.region().slice(begin..begin + length as usize));
    }
    Slices::Many(runs(slices, offset, length).map(|(region, run)| region.slice(run)).collect())
}

/// The same bytes as ranges of regions.
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

/// The number of times that a device may refuse an operation before it fails.
const MAX_REFUSALS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;
    use crate::setup::register_software;

    #[test]
    fn cuts_of_several_slices_have_the_right_bytes() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let bytes: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
        memory.write(0, &bytes);
        let region = register_software(&memory, Rights::NONE);
        let slices = [region.slice(10..20), region.slice(100..100), region.slice(7..50)];
        let whole: Vec<u8> = slices.iter().flat_map(Slice::to_vec).collect();
        for offset in 0..whole.len() {
            for length in 0..=whole.len() - offset {
                let range = sub_slices(&slices, offset as u64, length as u64);
                let bytes: Vec<u8> = range.as_slice().iter().flat_map(Slice::to_vec).collect();
                assert_eq!(bytes, whole[offset..offset + length]);
            }
        }
    }
}
