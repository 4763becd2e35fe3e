//! Reads of put data, from the client's memory directly into the pool.
//!
//! A fetch owns the memory that its bytes are read into, until its last read is complete.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::{Completion, Op, Slices, Window, Work};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Ranges;

use super::completion_id::CompletionId;
use super::disk_requests::Submission;
use super::handles::StagedValue;
use crate::engine::persistence::WriteKind;
use crate::engine::session::Session;
use crate::engine::{ReservedValue, subranges};
use crate::slab::Slab;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct PutFetches {
    in_flight: Slab<PutFetch>,
}

/// The reads that get the bytes of one put from the client's memory.
struct PutFetch {
    target: AnswerIndex,
    reads_in_flight: u32,
    failed: bool,
    purpose: PutFetchPurpose,
}

/// An answer that a batch waits for: the batch, and the index of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerIndex {
    pub(super) batch: u32,
    pub(super) index: usize,
}

/// What to read for a put, once its batch has its row in the table of pending ones.
pub(super) struct PutFetchPlan {
    pub(super) index: usize,
    pub(super) from: Window,
    pub(super) at: u64,
    pub(super) purpose: PutFetchPurpose,
}

/// What the bytes are for.
pub(super) enum PutFetchPurpose {
    /// A complete value.
    Value(ReservedValue, CommitParams),
    /// A chunk of a staged value.
    Chunk { staged: Arc<StagedValue>, offset: u64, length: u64 },
}

/// The parameters of a commit.
pub(super) struct CommitParams {
    pub(super) key: Box<[u8]>,
    pub(super) ttl: Option<u64>,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

/// A completed fetch.
pub(super) struct CompletedPutFetch {
    pub(super) target: AnswerIndex,
    failed: bool,
    purpose: PutFetchPurpose,
}

/// What follows a fetch.
pub(super) enum NextStep {
    Answer(Answer),
    /// A write that is answered once it is durable.
    Submit(Submission),
}

impl PutFetches {
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Queues the reads of a plan.
    pub(super) fn begin(
        &mut self,
        batch: u32,
        plan: PutFetchPlan,
        max_slices: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        let PutFetchPlan { index, from, mut at, purpose } = plan;
        let first = ops.len();
        let (ranges, offset, length) = purpose.destination();
        let mut slices = context.spare.pop().unwrap_or_default();
        let mut gathered = 0;
        for (start, length) in subranges(&ranges, offset, length) {
            slices.push(context.pool.slice(start as usize..(start + length) as usize));
            gathered += length;
            if slices.len() == max_slices {
                let full = Slices::Many(std::mem::take(&mut slices));
                ops.push_back(Op::read(0, full, from.at(at)));
                (at, gathered) = (at + gathered, 0);
            }
        }
        context.tally.bytes_in += length;
        if slices.is_empty() {
            context.spare.push(slices);
        } else {
            ops.push_back(Op::read(0, Slices::Many(slices), from.at(at)));
        }
        let reads_in_flight = (ops.len() - first) as u32;
        let target = AnswerIndex { batch, index };
        let row =
            self.in_flight.insert(PutFetch { target, reads_in_flight, failed: false, purpose });
        ops.iter_mut().skip(first).for_each(|op| op.op_id = CompletionId::PutFetch(row).encode());
    }

    /// Handles the completion of a read; returns the fetch after its last one.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) -> Option<CompletedPutFetch> {
        if let Work::Read { into: Slices::Many(mut slices), .. } = completion.work {
            slices.clear();
            context.spare.push(slices);
        }
        let fetch = self.in_flight.get_mut(row)?;
        fetch.failed |= completion.outcome.is_err();
        fetch.reads_in_flight -= 1;
        if fetch.reads_in_flight > 0 {
            return None;
        }
        let PutFetch { target, failed, purpose, .. } = self.in_flight.remove(row)?;
        Some(CompletedPutFetch { target, failed, purpose })
    }
}

impl PutFetchPurpose {
    /// Where in the pool the bytes go: ranges, offset and length.
    fn destination(&self) -> (Ranges, u64, u64) {
        match self {
            PutFetchPurpose::Value(reserved, _) => {
                (reserved.reservation().ranges(), 0, reserved.reservation().length())
            }
            PutFetchPurpose::Chunk { staged, offset, length } => {
                (staged.reserved.reservation().ranges(), *offset, *length)
            }
        }
    }
}

impl PutFetchPlan {
    /// Cancels the plan: a write may be retried.
    pub(super) fn abandon(&self, session: &Session) {
        if let PutFetchPurpose::Value(_, params) = &self.purpose {
            session.cancel_write(params.sequence);
        }
    }
}

impl CompletedPutFetch {
    /// Commits or records the bytes read.
    pub(super) fn finish(self, session: &Session, context: &WorkerContext) -> NextStep {
        let CompletedPutFetch { target: AnswerIndex { index, .. }, failed, purpose } = self;
        NextStep::Answer(match (purpose, failed) {
            (PutFetchPurpose::Value(reserved, params), false) => {
                let CommitParams { key, ttl, condition, sequence } = params;
                if context.engine.has_disk() {
                    let kind = WriteKind::Put { reserved, ttl };
                    let submission = Submission { index, key, kind, condition, sequence };
                    return NextStep::Submit(submission);
                }
                let answer = context.engine.commit(&key, reserved.take(), ttl, condition);
                session.finish_write(sequence, answer);
                answer
            }
            (PutFetchPurpose::Value(_, params), true) => {
                session.cancel_write(params.sequence);
                Answer::new(Status::Unreadable)
            }
            (PutFetchPurpose::Chunk { staged, offset, length }, false) => {
                staged.cover(offset, length);
                Answer { length, ..Answer::new(Status::Ok) }
            }
            (PutFetchPurpose::Chunk { .. }, true) => Answer::new(Status::Unreadable),
        })
    }
}
