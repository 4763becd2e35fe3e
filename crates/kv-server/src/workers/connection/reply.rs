//! Answers go out: by as few writes as they fit into, each with a number.

use std::collections::VecDeque;

use fabric::{Completion, Lane, Op, Pieces, Slice, Window, Work};
use kv_proto::wire::{Answer, Board, Parts};

use super::draft::{Behind, Draft, Hold};
use super::{BATCHES, Guest, REPLY, State};
use crate::workers::context::Tools;
use crate::workers::send_buffers::Slot;

/// Answers on their way.
pub(super) struct Reply {
    left: u32,
    slot: Slot,
    holds: Vec<Hold>,
    bell: Bell,
}

impl Reply {
    /// Whether values are on their way, not only answers.
    pub(super) fn has_values(&self) -> bool {
        !self.holds.is_empty()
    }
}

/// How the client learns that its answers are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bell {
    /// By the numbers of the writes.
    None,
    /// By a word before them, when all writes are over.
    ToRing { at: u64, sequence: u64 },
    /// That word is on its way.
    Rings,
}

impl Guest {
    /// Writes the answers; `false` if so many are on their way that these must wait for others to arrive.
    pub(super) fn reply(&mut self, mut draft: Draft, tools: &mut Tools) -> bool {
        let State::Client(client) = &self.state else {
            tools.recycle(draft);
            return true;
        };
        if self.replies.len() >= usize::from(BATCHES) || self.large >= MAX_LARGE {
            self.unsent.push_front(draft);
            return false;
        }
        tools.tally.batches += 1;
        tools.tally.requests += draft.answers.len() as u64;
        let bytes = tools.render(&draft.answers, &draft.copied);
        // On shared memory what is copied anyway goes by one more copy, and needs nothing to be kept.
        if let (0, true, Some(sequence)) = (draft.pieces, draft.apart.is_empty(), draft.bell) {
            let bell = draft.head.at - Board::BELL as u64;
            if self.link.poke(&client.landing, draft.head.at, bytes, (bell, sequence)) {
                if !draft.loans.is_empty() {
                    self.lend(sequence, &mut draft.loans, draft.lent, tools);
                }
                self.rang();
                tools.settle(draft);
                return true;
            }
        }
        let Some(slot) = tools.keep() else {
            tools.recycle(draft);
            self.dismiss("there is no memory for an answer");
            return true;
        };
        self.large += usize::from(slot.is_large());
        let begun = self.ops.len();
        let most = self.link.caps().max_pieces;
        let mut pieces = tools.spare.pop().unwrap_or_default();
        compose(&mut pieces, &mut draft, &slot, tools);
        write(&mut self.ops, pieces, &client.landing, draft.head.at, most, tools);
        for (window, at, pieces) in draft.apart.drain(..) {
            write(&mut self.ops, pieces, &window, at, most, tools);
        }
        let count = (self.ops.len() - begun) as u32;
        let tag = draft.head.tag;
        let number = Parts { tag, count }.to_number();
        let (bell, number) = match draft.bell.take() {
            Some(sequence) => {
                if !draft.loans.is_empty() {
                    self.lend(sequence, &mut draft.loans, draft.lent, tools);
                }
                (Bell::ToRing { at: draft.head.at - Board::BELL as u64, sequence }, None)
            }
            None => (Bell::None, Some(number)),
        };
        let holds = draft.take_holds();
        let row = self.replies.insert(Reply { left: count, slot, holds, bell });
        for op in self.ops.iter_mut().skip(begun) {
            op.token = REPLY | u64::from(row);
            if let Work::Write { imm, .. } = &mut op.work {
                *imm = number;
            }
        }
        tools.drafts.push(draft);
        true
    }

    /// A write of an answer is over.
    pub(super) fn replied(&mut self, row: u32, completion: Completion, tools: &mut Tools) {
        if let Work::Write { from: Pieces::Many(mut pieces), .. } = completion.work {
            pieces.clear();
            tools.spare.push(pieces);
        }
        let Some(reply) = self.replies.get_mut(row) else { return };
        reply.left -= 1;
        if reply.left == 0 {
            tools.release(std::mem::take(&mut reply.holds));
            self.all_placed(row, completion.outcome.is_ok(), tools);
        }
        if let Err(failure) = completion.outcome
            && self.link.ended().is_none()
        {
            tracing::debug!(peer = %self.peer, %failure, "an answer could not be written");
            self.dismiss("its memory cannot be written");
        }
    }
}

impl Guest {
    /// All of an answer is in the client's memory, or never will be.
    fn all_placed(&mut self, row: u32, is_placed: bool, tools: &mut Tools) {
        let Some(reply) = self.replies.get_mut(row) else { return };
        if let (Bell::ToRing { at, sequence }, State::Client(client)) = (reply.bell, &self.state)
            && is_placed
        {
            (reply.bell, reply.left) = (Bell::Rings, 1);
            let word = tools.desk.bell(&reply.slot, sequence);
            let bell = client.landing.at(at);
            return self.ops.push_back(Op::write(REPLY | u64::from(row), word, bell));
        }
        if let Some(reply) = self.replies.remove(row) {
            self.large -= usize::from(reply.slot.is_large());
            tools.desk.give_back(reply.slot);
            if reply.bell == Bell::Rings {
                self.rang();
            }
        }
    }
}

/// How many long answers of copied bytes may be on their way.
const MAX_LARGE: usize = 2;

/// The answers and what stands behind them, as pieces.
fn compose(pieces: &mut Vec<Slice>, draft: &mut Draft, slot: &Slot, tools: &Tools) {
    let (mut from, mut to) = (0, draft.answers.len() * Answer::LENGTH);
    for behind in draft.behind.drain(..) {
        match behind {
            Behind::Copied(length) => to += length,
            Behind::Pool(slice) => {
                if from < to {
                    pieces.push(tools.desk.slice(slot, from, to));
                    from = to;
                }
                pieces.push(slice);
            }
        }
    }
    if from < to {
        pieces.push(tools.desk.slice(slot, from, to));
    }
}

/// Consecutive bytes of a client's memory, by writes that have not too many pieces each.
fn write(
    ops: &mut VecDeque<Op>,
    mut pieces: Vec<Slice>,
    window: &Window,
    mut at: u64,
    most: usize,
    tools: &mut Tools,
) {
    while pieces.len() > most {
        let mut some = tools.spare.pop().unwrap_or_default();
        some.extend(pieces.drain(..most));
        let length = some.iter().map(Slice::len).sum::<usize>() as u64;
        ops.push_back(Op::write_imm(0, Pieces::Many(some), window.at(at), 0));
        at += length;
    }
    match pieces.len() {
        0 => tools.spare.push(pieces),
        1 => {
            let one = pieces.pop().map_or(Pieces::EMPTY, Pieces::One);
            tools.spare.push(pieces);
            ops.push_back(Op::write_imm(0, one, window.at(at), 0));
        }
        _ => ops.push_back(Op::write_imm(0, Pieces::Many(pieces), window.at(at), 0)),
    }
}
