//! The send side: answers that are written into the client's memory, by as few writes as possible.
//!
//! A reply owns its send buffer and keeps its values pinned until its last write is complete; a
//! completion flag, if there is one, is set after that. The number of replies in flight is limited, and that of replies in
//! large buffers: further answers wait here.

use std::collections::VecDeque;

use fabric::{Completion, Op, Slice, Slices, Window, Work};
use kv_proto::wire::{Answer, ReplyImmediate};

use super::MAX_BATCHES;
use super::batch_answers::{BatchAnswers, CompletionFlag, Payload, ValuePin};
use super::completion_id::CompletionId;
use crate::slab::Slab;
use crate::workers::context::WorkerContext;
use crate::workers::send_buffers::SendBuffer;

#[derive(Default)]
pub(super) struct Replies {
    in_flight: Slab<Reply>,
    /// The number of them in large send buffers.
    large: usize,
    deferred: VecDeque<Box<BatchAnswers>>,
}

struct Reply {
    writes_in_flight: u32,
    buffer: SendBuffer,
    holds: Vec<ValuePin>,
    notification: ReplyNotification,
}

/// How the client is notified of its answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplyNotification {
    /// By the immediate data of the writes.
    Immediate,
    /// By a flag before the answers, set when all writes are complete.
    ToSet(CompletionFlag),
    /// The write of that flag is in flight.
    Setting,
}

impl Replies {
    /// Whether a new reply must wait: the limit is reached, or older ones wait.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        self.is_full() || !self.deferred.is_empty()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.in_flight.len() >= usize::from(MAX_BATCHES) || self.large >= MAX_LARGE
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

    /// Defers a reply until fewer are in flight, and those deferred before it are sent.
    pub(super) fn defer(&mut self, batch_answers: Box<BatchAnswers>) {
        self.deferred.push_back(batch_answers);
    }

    /// The oldest deferred reply, if it can be sent now.
    #[inline]
    pub(super) fn next_deferred(&mut self) -> Option<Box<BatchAnswers>> {
        if self.is_full() { None } else { self.deferred.pop_front() }
    }

    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Queues the writes of a batch, whose answers are in the buffer.
    pub(super) fn write(
        &mut self,
        mut batch_answers: Box<BatchAnswers>,
        buffer: SendBuffer,
        client_buffer: &Window,
        max_slices: usize,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        self.large += usize::from(buffer.is_large());
        let first = ops.len();
        let mut slices = context.spare.pop().unwrap_or_default();
        gather(&mut slices, &mut batch_answers, &buffer, context);
        write(ops, slices, client_buffer, batch_answers.head.at, max_slices, context);
        for (window, at, slices) in batch_answers.region_writes.drain(..) {
            write(ops, slices, &window, at, max_slices, context);
        }
        let writes_in_flight = (ops.len() - first) as u32;
        let data = ReplyImmediate { tag: batch_answers.head.tag, count: writes_in_flight };
        let (notification, immediate) = match batch_answers.completion_flag() {
            Some(flag) => (ReplyNotification::ToSet(flag), None),
            None => (ReplyNotification::Immediate, Some(data.to_immediate())),
        };
        let holds = batch_answers.take_holds();
        let row = self.in_flight.insert(Reply { writes_in_flight, buffer, holds, notification });
        // The row and the number of writes are known only now.
        for op in ops.iter_mut().skip(first) {
            op.op_id = CompletionId::Reply(row).encode();
            if let Work::Write { imm, .. } = &mut op.work {
                *imm = immediate;
            }
        }
        context.spare_batch_answers.push(batch_answers);
    }

    /// Handles the completion of a write. Returns whether its completion flag was set; for a closed client none is set.
    pub(super) fn completed(
        &mut self,
        row: u32,
        completion: Completion,
        client_buffer: Option<&Window>,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) -> bool {
        if let Work::Write { from: Slices::Many(mut slices), .. } = completion.work {
            slices.clear();
            context.spare.push(slices);
        }
        let Some(reply) = self.in_flight.get_mut(row) else { return false };
        reply.writes_in_flight -= 1;
        if reply.writes_in_flight > 0 {
            return false;
        }
        context.release(std::mem::take(&mut reply.holds));
        if let (ReplyNotification::ToSet(flag), Some(client_buffer), Ok(_)) =
            (reply.notification, client_buffer, completion.outcome)
        {
            (reply.notification, reply.writes_in_flight) = (ReplyNotification::Setting, 1);
            let word = context.send_buffers.completion_flag(&reply.buffer, flag.slot_sequence);
            let to = client_buffer.at(flag.at);
            ops.push_back(Op::write(CompletionId::Reply(row).encode(), word, to));
            return false;
        }
        let Some(reply) = self.in_flight.remove(row) else { return false };
        self.large -= usize::from(reply.buffer.is_large());
        context.send_buffers.release(reply.buffer);
        reply.notification == ReplyNotification::Setting
    }

    /// Recycles replies that were not sent.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.deferred.drain(..).for_each(|batch_answers| context.recycle(batch_answers));
    }
}

/// The answers and their payload, as slices.
fn gather(
    slices: &mut Vec<Slice>,
    batch_answers: &mut BatchAnswers,
    buffer: &SendBuffer,
    context: &WorkerContext,
) {
    let (mut from, mut to) = (0, batch_answers.answers.len() * Answer::LENGTH);
    for payload in batch_answers.payload.drain(..) {
        match payload {
            Payload::Copied(length) => to += length,
            Payload::Pool(slice) => {
                if from < to {
                    slices.push(context.send_buffers.slice(buffer, from, to));
                    from = to;
                }
                slices.push(slice);
            }
        }
    }
    if from < to {
        slices.push(context.send_buffers.slice(buffer, from, to));
    }
}

/// Queues writes of slices to consecutive bytes of a client's memory, with a limited number of slices each.
fn write(
    ops: &mut VecDeque<Op>,
    mut slices: Vec<Slice>,
    window: &Window,
    mut at: u64,
    max_slices: usize,
    context: &mut WorkerContext,
) {
    while slices.len() > max_slices {
        let mut full = context.spare.pop().unwrap_or_default();
        full.extend(slices.drain(..max_slices));
        let length = full.iter().map(Slice::len).sum::<usize>() as u64;
        ops.push_back(Op::write_imm(0, Slices::Many(full), window.at(at), 0));
        at += length;
    }
    match slices.len() {
        0 => context.spare.push(slices),
        1 => {
            let one = slices.pop().map_or(Slices::EMPTY, Slices::One);
            context.spare.push(slices);
            ops.push_back(Op::write_imm(0, one, window.at(at), 0));
        }
        _ => ops.push_back(Op::write_imm(0, Slices::Many(slices), window.at(at), 0)),
    }
}

/// Replies in large send buffers that may be in flight.
const MAX_LARGE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferred_replies_are_sent_in_order() {
        let mut replies = Replies { large: MAX_LARGE, ..Replies::default() };
        for tag in 1..=3 {
            assert!(replies.must_wait());
            let mut batch_answers = Box::new(BatchAnswers::new());
            batch_answers.head.tag = tag;
            replies.defer(batch_answers);
        }
        assert!(replies.next_deferred().is_none(), "the limit is reached");
        replies.large = 0;
        assert!(replies.must_wait(), "a new reply is sent after those that wait");
        let mut sent = Vec::new();
        while let Some(batch_answers) = replies.next_deferred() {
            sent.push(batch_answers.head.tag);
        }
        assert_eq!(sent, [1, 2, 3]);
        assert!(!replies.must_wait());
    }
}
