//! Reads of put data, from the client's memory directly into the pool.
//!
//! A put read owns the memory that its bytes are read into, until its last read is complete.

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
pub(super) struct PutReads {
    in_flight: Slab<PutRead>,
}

/// The reads that get the bytes of one put from the client's memory.
struct PutRead {
    target: AnswerIndex,
    /// The number of reads in flight.
    left: u32,
    failed: bool,
    purpose: PutReadPurpose,
}

/// An answer that a batch waits for: the batch, and the index of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerIndex {
    pub(super) batch: u32,
    pub(super) index: usize,
}

/// What to read for a put, once its batch has its index in the table of pending ones.
pub(super) struct PutReadPlan {
    pub(super) index: usize,
    pub(super) from: Window,
    pub(super) at: u64,
    pub(super) purpose: PutReadPurpose,
}

/// What the bytes are for.
pub(super) enum PutReadPurpose {
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

/// A completed put read.
pub(super) struct CompletedPutRead {
    pub(super) target: AnswerIndex,
    failed: bool,
    purpose: PutReadPurpose,
}

/// What follows a put read.
pub(super) enum NextStep {
    Answer(Answer),
    /// A write that is answered once it is durable.
    Submit(Submission),
}

impl PutReads {
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
        plan: PutReadPlan,
        max_slices: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        let PutReadPlan { index, from, mut at, purpose } = plan;
        let first = ops.len();
        let (ranges, offset, length) = purpose.destination();
        let mut slices = context.spare.pop().unwrap_or_default();
        let mut gathered = 0;
        for (place, length) in subranges(&ranges, offset, length) {
            slices.push(context.pool.slice(place as usize..(place + length) as usize));
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
        let left = (ops.len() - first) as u32;
        let target = AnswerIndex { batch, index };
        let row = self.in_flight.insert(PutRead { target, left, failed: false, purpose });
        ops.iter_mut().skip(first).for_each(|op| op.op_id = CompletionId::PutRead(row).encode());
    }

    /// Handles the completion of a read; returns the put read after its last one.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) -> Option<CompletedPutRead> {
        if let Work::Read { into: Slices::Many(mut slices), .. } = completion.work {
            slices.clear();
            context.spare.push(slices);
        }
        let put_read = self.in_flight.get_mut(row)?;
        put_read.failed |= completion.outcome.is_err();
        put_read.left -= 1;
        if put_read.left > 0 {
            return None;
        }
        let PutRead { target, failed, purpose, .. } = self.in_flight.remove(row)?;
        Some(CompletedPutRead { target, failed, purpose })
    }
}

impl PutReadPurpose {
    /// Where in the pool the bytes go: ranges, offset and length.
    fn destination(&self) -> (Ranges, u64, u64) {
        match self {
            PutReadPurpose::Value(reserved, _) => {
                (reserved.reservation().ranges(), 0, reserved.reservation().length())
            }
            PutReadPurpose::Chunk { staged, offset, length } => {
                (staged.reserved.reservation().ranges(), *offset, *length)
            }
        }
    }
}

impl PutReadPlan {
    /// Cancels the plan: a write may be retried.
    pub(super) fn abandon(&self, session: &Session) {
        if let PutReadPurpose::Value(_, params) = &self.purpose {
            session.cancel_write(params.sequence);
        }
    }
}

impl CompletedPutRead {
    /// Commits or records the bytes read.
    pub(super) fn finish(self, session: &Session, context: &WorkerContext) -> NextStep {
        let CompletedPutRead { target: AnswerIndex { index, .. }, failed, purpose } = self;
        NextStep::Answer(match (purpose, failed) {
            (PutReadPurpose::Value(reserved, params), false) => {
                let CommitParams { key, ttl, condition, sequence } = params;
                if context.engine.is_durable() {
                    let kind = WriteKind::Put { reserved, ttl };
                    let submission = Submission { index, key, kind, condition, sequence };
                    return NextStep::Submit(submission);
                }
                let answer = context.engine.commit(&key, reserved.take(), ttl, condition);
                session.finish_write(sequence, answer);
                answer
            }
            (PutReadPurpose::Value(_, params), true) => {
                session.cancel_write(params.sequence);
                Answer::new(Status::Unreadable)
            }
            (PutReadPurpose::Chunk { staged, offset, length }, false) => {
                staged.cover(offset, length);
                Answer { length, ..Answer::new(Status::Ok) }
            }
            (PutReadPurpose::Chunk { .. }, true) => Answer::new(Status::Unreadable),
        })
    }
}
