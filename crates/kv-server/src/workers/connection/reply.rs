//! Answers go out: by as few writes as they fit into, each with a number.

use std::collections::VecDeque;

use fabric::{Completion, Lane, Op, Pieces, Slice, Window, Work};
use kv_proto::wire::{Answer, ControlBlock, Parts};

use super::draft::{Behind, Draft, Hold};
use super::token::Token;
use super::{BATCHES, Connection};
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::Slot;

/// Answers on their way.
pub(super) struct Reply {
    left: u32,
    slot: Slot,
    holds: Vec<Hold>,
    completion_flag: CompletionFlag,
}

impl Reply {
    /// Whether values are on their way, not only answers.
    pub(super) fn has_values(&self) -> bool {
        !self.holds.is_empty()
    }
}

/// How the client learns that its answers are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CompletionFlag {
    /// By the numbers of the writes.
    None,
    /// By a word before them, when all writes are over.
    ToSet { at: u64, sequence: u64 },
    /// That word is on its way.
    Setting,
}

impl Connection {
    /// Writes the answers; `false` if so many are on their way that these must wait for others to arrive.
    pub(super) fn reply(&mut self, mut draft: Draft, context: &mut WorkerContext) -> bool {
        let Some(client) = self.peer.client() else {
            context.recycle(draft);
            return true;
        };
        if self.replies.len() >= usize::from(BATCHES) || self.large >= MAX_LARGE {
            self.unsent.push_front(draft);
            return false;
        }
        context.tally.batches += 1;
        context.tally.requests += draft.answers.len() as u64;
        let bytes = context.render(&draft.answers, &draft.copied);
        // On shared memory what is copied anyway costs one more copy, and needs nothing to be kept.
        if let (0, true, Some(sequence)) =
            (draft.pieces, draft.apart.is_empty(), draft.completion_flag)
        {
            let completion_flag = draft.head.at - ControlBlock::FLAG as u64;
            if self.link.poke(
                client.receive_buffer(),
                draft.head.at,
                bytes,
                (completion_flag, sequence),
            ) {
                if !draft.pinned_reads.is_empty() {
                    self.hold_reads(
                        sequence,
                        &mut draft.pinned_reads,
                        draft.in_place_bytes,
                        context,
                    );
                }
                self.flag_set();
                context.settle(draft);
                return true;
            }
        }
        let Some(slot) = context.keep() else {
            context.recycle(draft);
            self.dismiss("there is no memory for an answer");
            return true;
        };
        self.large += usize::from(slot.is_large());
        let begun = self.ops.len();
        let most = self.link.caps().max_pieces;
        let mut pieces = context.spare.pop().unwrap_or_default();
        compose(&mut pieces, &mut draft, &slot, context);
        write(&mut self.ops, pieces, client.receive_buffer(), draft.head.at, most, context);
        for (window, at, pieces) in draft.apart.drain(..) {
            write(&mut self.ops, pieces, &window, at, most, context);
        }
        let count = (self.ops.len() - begun) as u32;
        let tag = draft.head.tag;
        let number = Parts { tag, count }.to_number();
        let (completion_flag, number) = match draft.completion_flag.take() {
            Some(sequence) => {
                if !draft.pinned_reads.is_empty() {
                    self.hold_reads(
                        sequence,
                        &mut draft.pinned_reads,
                        draft.in_place_bytes,
                        context,
                    );
                }
                (
                    CompletionFlag::ToSet {
                        at: draft.head.at - ControlBlock::FLAG as u64,
                        sequence,
                    },
                    None,
                )
            }
            None => (CompletionFlag::None, Some(number)),
        };
        let holds = draft.take_holds();
        let row = self.replies.insert(Reply { left: count, slot, holds, completion_flag });
        for op in self.ops.iter_mut().skip(begun) {
            op.token = Token::Reply(row).encode();
            if let Work::Write { imm, .. } = &mut op.work {
                *imm = number;
            }
        }
        context.drafts.push(draft);
        true
    }

    /// A write of an answer is over.
    pub(super) fn replied(
        &mut self,
        row: u32,
        completion: Completion,
        context: &mut WorkerContext,
    ) {
        if let Work::Write { from: Pieces::Many(mut pieces), .. } = completion.work {
            pieces.clear();
            context.spare.push(pieces);
        }
        let Some(reply) = self.replies.get_mut(row) else { return };
        reply.left -= 1;
        if reply.left == 0 {
            context.release(std::mem::take(&mut reply.holds));
            self.all_placed(row, completion.outcome.is_ok(), context);
        }
        if let Err(failure) = completion.outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer.address(), %failure, "an answer could not be written");
            self.dismiss("its memory cannot be written");
        }
    }
}

impl Connection {
    /// All of an answer is in the client's memory, or never will be.
    fn all_placed(&mut self, row: u32, is_placed: bool, context: &mut WorkerContext) {
        let Some(reply) = self.replies.get_mut(row) else { return };
        if let (CompletionFlag::ToSet { at, sequence }, Some(client)) =
            (reply.completion_flag, self.peer.client())
            && is_placed
        {
            (reply.completion_flag, reply.left) = (CompletionFlag::Setting, 1);
            let word = context.send_buffers.completion_flag(&reply.slot, sequence);
            let completion_flag = client.receive_buffer().at(at);
            return self.ops.push_back(Op::write(
                Token::Reply(row).encode(),
                word,
                completion_flag,
            ));
        }
        if let Some(reply) = self.replies.remove(row) {
            self.large -= usize::from(reply.slot.is_large());
            context.send_buffers.give_back(reply.slot);
            if reply.completion_flag == CompletionFlag::Setting {
                self.flag_set();
            }
        }
    }
}

/// How many long answers of copied bytes may be on their way.
const MAX_LARGE: usize = 2;

/// The answers and what stands behind them, as pieces.
fn compose(pieces: &mut Vec<Slice>, draft: &mut Draft, slot: &Slot, context: &WorkerContext) {
    let (mut from, mut to) = (0, draft.answers.len() * Answer::LENGTH);
    for behind in draft.behind.drain(..) {
        match behind {
            Behind::Copied(length) => to += length,
            Behind::Pool(slice) => {
                if from < to {
                    pieces.push(context.send_buffers.slice(slot, from, to));
                    from = to;
                }
                pieces.push(slice);
            }
        }
    }
    if from < to {
        pieces.push(context.send_buffers.slice(slot, from, to));
    }
}

/// Consecutive bytes of a client's memory, by writes that have not too many pieces each.
fn write(
    ops: &mut VecDeque<Op>,
    mut pieces: Vec<Slice>,
    window: &Window,
    mut at: u64,
    most: usize,
    context: &mut WorkerContext,
) {
    while pieces.len() > most {
        let mut some = context.spare.pop().unwrap_or_default();
        some.extend(pieces.drain(..most));
        let length = some.iter().map(Slice::len).sum::<usize>() as u64;
        ops.push_back(Op::write_imm(0, Pieces::Many(some), window.at(at), 0));
        at += length;
    }
    match pieces.len() {
        0 => context.spare.push(pieces),
        1 => {
            let one = pieces.pop().map_or(Pieces::EMPTY, Pieces::One);
            context.spare.push(pieces);
            ops.push_back(Op::write_imm(0, one, window.at(at), 0));
        }
        _ => ops.push_back(Op::write_imm(0, Pieces::Many(pieces), window.at(at), 0)),
    }
}
