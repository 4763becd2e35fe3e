//! Bytes that clients put: the store reads them from where they lie.

use std::sync::Arc;

use fabric::{Completion, Lane, Op, Pieces, Window, Work};
use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};
use kv_store::Ranges;

use super::Connection;
use super::durable::Submission;
use super::handles::Staging;
use super::token::Token;
use crate::engine::journal::WriteKind;
use crate::engine::{Staged, within};
use crate::workers::context::WorkerContext;

/// Bytes on their way here.
pub(super) struct Fetch {
    /// The answers that wait for them, and which of those.
    batch: u32,
    index: usize,
    left: u32,
    failed: bool,
    purpose: Purpose,
}

/// What they are for.
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

/// What is to be fetched, once the batch has its row.
pub(super) struct Plan {
    pub(super) index: usize,
    pub(super) from: Window,
    pub(super) at: u64,
    pub(super) purpose: Purpose,
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

impl Connection {
    /// Begins to fetch.
    pub(super) fn fetch(&mut self, batch: u32, plan: Plan, context: &mut WorkerContext) {
        let Plan { index, from, mut at, purpose } = plan;
        let begun = self.ops.len();
        let most = self.link.caps().max_pieces;
        let (ranges, offset, length) = purpose.room();
        let mut pieces = context.spare.pop().unwrap_or_default();
        let mut gathered = 0;
        for (place, length) in within(&ranges, offset, length) {
            pieces.push(context.pool.slice(place as usize..(place + length) as usize));
            gathered += length;
            if pieces.len() == most {
                let some = Pieces::Many(std::mem::take(&mut pieces));
                self.ops.push_back(Op::read(0, some, from.at(at)));
                (at, gathered) = (at + gathered, 0);
            }
        }
        context.tally.bytes_in += length;
        if pieces.is_empty() {
            context.spare.push(pieces);
        } else {
            self.ops.push_back(Op::read(0, Pieces::Many(pieces), from.at(at)));
        }
        let left = (self.ops.len() - begun) as u32;
        let fetch = Fetch { batch, index, left, failed: false, purpose };
        let row = self.fetches.insert(fetch);
        for op in self.ops.iter_mut().skip(begun) {
            op.token = Token::Fetch(row).encode();
        }
    }

    /// Some of it came.
    pub(super) fn fetched(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        if let Work::Read { into: Pieces::Many(mut pieces), .. } = completion.work {
            pieces.clear();
            context.spare.push(pieces);
        }
        let Some(fetch) = self.fetches.get_mut(row) else { return };
        fetch.failed |= completion.outcome.is_err();
        fetch.left -= 1;
        if fetch.left > 0 {
            return;
        }
        let Some(Fetch { batch, index, failed, purpose, .. }) = self.fetches.remove(row) else {
            return;
        };
        let Some(session) = self.peer.session() else { return };
        let durable = context.engine.journal().is_some();
        let answer = match (purpose, failed) {
            (Purpose::Value(staged, terms), false) if durable => {
                let Terms { key, ttl, condition, sequence } = terms;
                let what = WriteKind::Put { staged, ttl };
                let submission = Submission { index, key, what, condition, sequence };
                return self.submit(batch, submission, context);
            }
            (Purpose::Value(staged, terms), false) => {
                let Terms { key, ttl, condition, sequence } = terms;
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
        };
        self.answered(batch, index, answer, context);
    }

    /// One of the answers that a batch waited for; with the last it goes out.
    pub(super) fn answered(
        &mut self,
        batch: u32,
        index: usize,
        answer: Answer,
        context: &mut WorkerContext,
    ) {
        let Some(draft) = self.waiting.get_mut(batch) else { return };
        draft.answers[index] = answer;
        draft.missing -= 1;
        if draft.missing == 0
            && let Some(draft) = self.waiting.remove(batch)
        {
            self.reply(draft, context);
        }
    }
}
