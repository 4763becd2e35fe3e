//! Fetches: reads of bytes that clients put, from the client's memory directly into the pool.
//!
//! A fetch owns the memory that its bytes are read into, until its last read is complete.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::{Completion, Op, Slices, Window, Work};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Ranges;

use super::disk_requests::Submission;
use super::handles::Staging;
use super::token::Token;
use crate::engine::persistence::WriteKind;
use crate::engine::session::Session;
use crate::engine::{StagedValue, subranges};
use crate::slab::Slab;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Fetches {
    in_flight: Slab<Fetch>,
}

/// A fetch in progress.
struct Fetch {
    target: AnswerIndex,
    /// The number of reads in flight.
    left: u32,
    failed: bool,
    purpose: FetchPurpose,
}

/// An answer that a batch waits for: the batch, and the index of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerIndex {
    pub(super) batch: u32,
    pub(super) index: usize,
}

/// A fetch to be started once the batch has its row.
pub(super) struct FetchPlan {
    pub(super) index: usize,
    pub(super) from: Window,
    pub(super) at: u64,
    pub(super) purpose: FetchPurpose,
}

/// What the bytes are for.
pub(super) enum FetchPurpose {
    /// A complete value.
    Value(StagedValue, WriteTerms),
    /// A chunk of a staged value.
    Chunk { staging: Arc<Staging>, offset: u64, length: u64 },
}

/// The terms of a commit.
pub(super) struct WriteTerms {
    pub(super) key: Box<[u8]>,
    pub(super) ttl: Option<u64>,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

/// A completed fetch.
pub(super) struct Fetched {
    pub(super) target: AnswerIndex,
    failed: bool,
    purpose: FetchPurpose,
}

/// What follows a fetch.
pub(super) enum Conclusion {
    Answer(Answer),
    /// A write that is answered once it is durable.
    Submit(Submission),
}

impl Fetches {
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
        plan: FetchPlan,
        max_slices: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        let FetchPlan { index, from, mut at, purpose } = plan;
        let first = ops.len();
        let (ranges, offset, length) = purpose.destination();
        let mut pieces = context.spare.pop().unwrap_or_default();
        let mut gathered = 0;
        for (place, length) in subranges(&ranges, offset, length) {
            pieces.push(context.pool.slice(place as usize..(place + length) as usize));
            gathered += length;
            if pieces.len() == max_slices {
                let full = Slices::Many(std::mem::take(&mut pieces));
                ops.push_back(Op::read(0, full, from.at(at)));
                (at, gathered) = (at + gathered, 0);
            }
        }
        context.tally.bytes_in += length;
        if pieces.is_empty() {
            context.spare.push(pieces);
        } else {
            ops.push_back(Op::read(0, Slices::Many(pieces), from.at(at)));
        }
        let left = (ops.len() - first) as u32;
        let target = AnswerIndex { batch, index };
        let row = self.in_flight.insert(Fetch { target, left, failed: false, purpose });
        ops.iter_mut().skip(first).for_each(|op| op.token = Token::Fetch(row).encode());
    }

    /// Handles the completion of a read; returns the fetch after its last one.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) -> Option<Fetched> {
        if let Work::Read { into: Slices::Many(mut pieces), .. } = completion.work {
            pieces.clear();
            context.spare.push(pieces);
        }
        let fetch = self.in_flight.get_mut(row)?;
        fetch.failed |= completion.outcome.is_err();
        fetch.left -= 1;
        if fetch.left > 0 {
            return None;
        }
        let Fetch { target, failed, purpose, .. } = self.in_flight.remove(row)?;
        Some(Fetched { target, failed, purpose })
    }
}

impl FetchPurpose {
    /// Where in the pool the bytes go: ranges, offset and length.
    fn destination(&self) -> (Ranges, u64, u64) {
        match self {
            FetchPurpose::Value(staged, _) => {
                (staged.reservation().ranges(), 0, staged.reservation().length())
            }
            FetchPurpose::Chunk { staging, offset, length } => {
                (staging.staged.reservation().ranges(), *offset, *length)
            }
        }
    }
}

impl FetchPlan {
    /// Cancels the plan: a write may be retried.
    pub(super) fn abandon(&self, session: &Session) {
        if let FetchPurpose::Value(_, terms) = &self.purpose {
            session.cancel_write(terms.sequence);
        }
    }
}

impl Fetched {
    /// Commits or records the fetched bytes.
    pub(super) fn conclude(self, session: &Session, context: &WorkerContext) -> Conclusion {
        let Fetched { target: AnswerIndex { index, .. }, failed, purpose } = self;
        Conclusion::Answer(match (purpose, failed) {
            (FetchPurpose::Value(staged, terms), false) => {
                let WriteTerms { key, ttl, condition, sequence } = terms;
                if context.engine.is_durable() {
                    let kind = WriteKind::Put { staged, ttl };
                    let submission = Submission { index, key, kind, condition, sequence };
                    return Conclusion::Submit(submission);
                }
                let answer = context.engine.commit(&key, staged.take(), ttl, condition);
                session.finish_write(sequence, answer);
                answer
            }
            (FetchPurpose::Value(_, terms), true) => {
                session.cancel_write(terms.sequence);
                Answer::new(Status::Unreadable)
            }
            (FetchPurpose::Chunk { staging, offset, length }, false) => {
                staging.cover(offset, length);
                Answer { length, ..Answer::new(Status::Ok) }
            }
            (FetchPurpose::Chunk { .. }, true) => Answer::new(Status::Unreadable),
        })
    }
}
