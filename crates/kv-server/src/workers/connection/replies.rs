//! The send side: answers that are written into the client's memory, by as few writes as they fit into.
//!
//! A reply owns its slot of the send buffers and holds the values it is written from until its last write is over; a
//! completion flag, where there is one, is set after that. There is a limit to replies, and one to those in large slots:
//! answers beyond it wait here, as drafts.

use std::collections::VecDeque;

use fabric::{Completion, Op, Pieces, Slice, Window, Work};
use kv_proto::wire::{Answer, Parts};

use super::BATCHES;
use super::draft::{Behind, CompletionFlag, Draft, Hold};
use super::token::Token;
use crate::rows::Rows;
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::Slot;

#[derive(Default)]
pub(super) struct Replies {
    in_flight: Rows<Reply>,
    /// How many of them are in large slots.
    large: usize,
    deferred: VecDeque<Draft>,
}

struct Reply {
    /// How many writes are in flight.
    left: u32,
    slot: Slot,
    holds: Vec<Hold>,
    notice: Notice,
}

/// How the client learns that its answers are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// By the immediate data of the writes.
    Immediate,
    /// By a flag before the answers, when all writes are over.
    ToSet(CompletionFlag),
    /// That flag is in flight.
    Setting,
}

impl Replies {
    /// Whether so many are in flight that another must wait.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= usize::from(BATCHES) || self.large >= MAX_LARGE
    }

    /// Whether none is in flight.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.len() == 0
    }

    /// Whether values are in flight, not only answers.
    pub(super) fn has_values(&mut self) -> bool {
        self.in_flight.iter_mut().any(|(_, reply)| !reply.holds.is_empty())
    }

    /// Answers that wait until fewer are in flight.
    pub(super) fn defer(&mut self, draft: Draft) {
        self.deferred.push_front(draft);
    }

    #[inline]
    pub(super) fn next_deferred(&mut self) -> Option<Draft> {
        self.deferred.pop_front()
    }

    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Queues the writes of a draft, whose answers were rendered into the slot.
    pub(super) fn write(
        &mut self,
        mut draft: Draft,
        slot: Slot,
        receive_buffer: &Window,
        max_pieces: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        self.large += usize::from(slot.is_large());
        let begun = ops.len();
        let mut pieces = context.spare.pop().unwrap_or_default();
        gather(&mut pieces, &mut draft, &slot, context);
        write(ops, pieces, receive_buffer, draft.head.at, max_pieces, context);
        for (window, at, pieces) in draft.apart.drain(..) {
            write(ops, pieces, &window, at, max_pieces, context);
        }
        let left = (ops.len() - begun) as u32;
        let parts = Parts { tag: draft.head.tag, count: left };
        let (notice, number) = match draft.completion_flag() {
            Some(flag) => (Notice::ToSet(flag), None),
            None => (Notice::Immediate, Some(parts.to_immediate())),
        };
        let holds = draft.take_holds();
        let row = self.in_flight.insert(Reply { left, slot, holds, notice });
        // Only now it is known which reply they are of, and how many they are.
        for op in ops.iter_mut().skip(begun) {
            op.token = Token::Reply(row).encode();
            if let Work::Write { imm, .. } = &mut op.work {
                *imm = number;
            }
        }
        context.drafts.push(draft);
    }

    /// A write of a reply is over. Returns whether its completion flag was set; to one that was dismissed none is.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        receive_buffer: Option<&Window>,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) -> bool {
        if let Work::Write { from: Pieces::Many(mut pieces), .. } = completion.work {
            pieces.clear();
            context.spare.push(pieces);
        }
        let Some(reply) = self.in_flight.get_mut(row) else { return false };
        reply.left -= 1;
        if reply.left > 0 {
            return false;
        }
        context.release(std::mem::take(&mut reply.holds));
        if let (Notice::ToSet(flag), Some(receive_buffer), Ok(_)) =
            (reply.notice, receive_buffer, completion.outcome)
        {
            (reply.notice, reply.left) = (Notice::Setting, 1);
            let word = context.send_buffers.completion_flag(&reply.slot, flag.sequence);
            let to = receive_buffer.at(flag.at);
            ops.push_back(Op::write(Token::Reply(row).encode(), word, to));
            return false;
        }
        let Some(reply) = self.in_flight.remove(row) else { return false };
        self.large -= usize::from(reply.slot.is_large());
        context.send_buffers.give_back(reply.slot);
        reply.notice == Notice::Setting
    }

    /// Gives back what was never sent.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.deferred.drain(..).for_each(|draft| context.recycle(draft));
    }
}

/// The answers and what stands behind them, as pieces.
fn gather(pieces: &mut Vec<Slice>, draft: &mut Draft, slot: &Slot, context: &WorkerContext) {
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

/// How many long answers of copied bytes may be in flight.
const MAX_LARGE: usize = 2;
