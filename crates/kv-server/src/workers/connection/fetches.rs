//! Bytes that clients put: the store reads them from where they lie, straight into the pool.
//!
//! A fetch owns the room that its bytes are read into, until the last of its reads is over.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::{Completion, Op, Pieces, Window, Work};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Ranges;

use super::disk_requests::Submission;
use super::handles::Staging;
use super::token::Token;
use crate::engine::journal::WriteKind;
use crate::engine::session::Session;
use crate::engine::{Staged, within};
use crate::rows::Rows;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Fetches {
    in_flight: Rows<Fetch>,
}

/// Bytes that are being read.
struct Fetch {
    target: AnswerIndex,
    /// How many reads are in flight.
    left: u32,
    failed: bool,
    purpose: Purpose,
}

/// An answer that a batch waits for: which batch, and which of its answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerIndex {
    pub(super) batch: u32,
    pub(super) index: usize,
}

/// What is to be fetched, once the batch has its row.
pub(super) struct Plan {
    pub(super) index: usize,
    pub(super) from: Window,
    pub(super) at: u64,
    pub(super) purpose: Purpose,
}

/// What bytes are for.
pub(super) enum Purpose {
    /// A whole value.
    Value(Staged, Terms),
    /// A piece of a staged one.
    Piece { staging: Arc<Staging>, offset: u64, length: u64 },
}

/// On what terms a value becomes a key's.
pub(super) struct Terms {
    pub(super) key: Box<[u8]>,
    pub(super) ttl: Option<u64>,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

/// A fetch whose reads are all over.
pub(super) struct Fetched {
    pub(super) target: AnswerIndex,
    failed: bool,
    purpose: Purpose,
}

/// What a fetch leads to.
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
        plan: Plan,
        max_pieces: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        let Plan { index, from, mut at, purpose } = plan;
        let begun = ops.len();
        let (ranges, offset, length) = purpose.room();
        let mut pieces = context.spare.pop().unwrap_or_default();
        let mut gathered = 0;
        for (place, length) in within(&ranges, offset, length) {
            pieces.push(context.pool.slice(place as usize..(place + length) as usize));
            gathered += length;
            if pieces.len() == max_pieces {
                let some = Pieces::Many(std::mem::take(&mut pieces));
                ops.push_back(Op::read(0, some, from.at(at)));
                (at, gathered) = (at + gathered, 0);
            }
        }
        context.tally.bytes_in += length;
        if pieces.is_empty() {
            context.spare.push(pieces);
        } else {
            ops.push_back(Op::read(0, Pieces::Many(pieces), from.at(at)));
        }
        let left = (ops.len() - begun) as u32;
        let target = AnswerIndex { batch, index };
        let row = self.in_flight.insert(Fetch { target, left, failed: false, purpose });
        ops.iter_mut().skip(begun).for_each(|op| op.token = Token::Fetch(row).encode());
    }

    /// A read is over; returns the fetch with its last one.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) -> Option<Fetched> {
        if let Work::Read { into: Pieces::Many(mut pieces), .. } = completion.work {
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

impl Purpose {
    /// Where in the pool the bytes go.
    fn room(&self) -> (Ranges, u64, u64) {
        match self {
            Purpose::Value(staged, _) => (staged.room().ranges(), 0, staged.room().length()),
            Purpose::Piece { staging, offset, length } => {
                (staging.staged.room().ranges(), *offset, *length)
            }
        }
    }
}

impl Plan {
    /// It will not be fetched after all: a write may be asked for again.
    pub(super) fn abandon(&self, session: &Session) {
        if let Purpose::Value(_, terms) = &self.purpose {
            session.undone(terms.sequence);
        }
    }
}

impl Fetched {
    /// Does what the bytes were fetched for.
    pub(super) fn conclude(self, session: &Session, context: &WorkerContext) -> Conclusion {
        let Fetched { target: AnswerIndex { index, .. }, failed, purpose } = self;
        Conclusion::Answer(match (purpose, failed) {
            (Purpose::Value(staged, terms), false) => {
                let Terms { key, ttl, condition, sequence } = terms;
                if context.engine.is_durable() {
                    let what = WriteKind::Put { staged, ttl };
                    let submission = Submission { index, key, what, condition, sequence };
                    return Conclusion::Submit(submission);
                }
                let answer = context.engine.commit(&key, staged.take(), ttl, condition);
                session.done(sequence, answer);
                answer
            }
            (Purpose::Value(_, terms), true) => {
                session.undone(terms.sequence);
                Answer::new(Status::Unreadable)
            }
            (Purpose::Piece { staging, offset, length }, false) => {
                staging.cover(offset, length);
                Answer { length, ..Answer::new(Status::Ok) }
            }
            (Purpose::Piece { .. }, true) => Answer::new(Status::Unreadable),
        })
    }
}
