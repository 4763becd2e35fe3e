//! The caller's unfinished operations, and the operations of lanes they consist of.
//!
//! A [`LaneOp`] is one operation of a lane. Most of the caller's operations are a single one, or a single message in a packet, which is kept
//! with its sequence number in `messages/outgoing.rs`; the others, each a [`MultiStepOp`], have a row, to which their chunks and messages refer. A row whose bytes are not all split into chunks is in `waiting` or
//! `key_pending`, never in both. Once a row is removed it is in no list, since it is reused.
//!
//! How an operation gets from its posting to its completion (functions of `Core`, in `core/`):
//!
//! | from | to | when | by |
//! |---|---|---|---|
//! | posted | completed | it is refused | `post.rs` `refuse` |
//! | posted | whole, on a lane | a short write or read, and a rail has capacity | `fast_path.rs` `post_whole`, `post.rs` `start_whole` |
//! | posted | on a lane, numbered, without a row | a short send, and the only rail in use has packets | `fast_path.rs` `post_short_sends` |
//! | posted | a row, in `waiting` | another write or read | `post.rs` `start_operation` |
//! | posted | a row, its message queued | another send, or an atomic operation | `post.rs` `start_operation` |
//! | posted | a row, chunk and message on one lane | a short write with immediate data; the lane is ordered | `post.rs` `start_with_imm` |
//! | `waiting` | `key_pending`, and back | its region has no key on the rails in use; keys or rails have changed | `chunks.rs` `post_chunks`; [`Operations::retry_key_pending`] |
//! | `waiting`, `retries` | a chunk on a lane | a rail has capacity | `chunks.rs` `post_chunks` |
//! | a message queued | on a lane, numbered | a rail and the peer have capacity | `send.rs` `send_next` |
//! | on a lane | placed | its completion, or the count of delivered packets | `fast_path.rs` `finish_whole`, `completions.rs` `took_effect`, `handle_packets` |
//! | on a lane | unconfirmed, at its rail | the lane failed | `completions.rs` `lost`, `packets_ended` |
//! | unconfirmed | placed | both ends are closed, the lane was ordered, and the peer received it or a later message | `fence.rs` `resolve` |
//! | unconfirmed | `retries`, or its message queued again (what had no row gets one) | both ends are closed, otherwise | `fence.rs` `retry`, `send.rs` `resend` |
//! | its message to be sent again | `deferred` | it has immediate data whose chunks are not placed | `send.rs` `resend`; back in `completions.rs` `progress` |
//! | all chunks placed | its message queued | immediate data follows | `completions.rs` `progress` |
//! | all placed and delivered | completed | a whole operation; a row; an atomic operation, with its answer | `completions.rs` `took_effect`, `message_delivered`, `progress`; `receive.rs` `answered` |
//! | a chunk, or unconfirmed | completed with a failure | it can never succeed; its other chunks have completed | `chunks.rs` `abandon`, `completions.rs` `unsupported`, `fence.rs` `retry` |
//! | any | completed | the link has ended, and its lanes have returned all | `ending.rs` `finish_end` |

mod lane_op;
mod multi_step_op;

use std::collections::VecDeque;

use crate::op::Failure;
use crate::slab::Slab;

pub(super) use self::lane_op::{
    Chunk, LaneOp, LaneOpKind, NEVER_CONFIRMED, WholeOperation, restore_op, restore_window,
};
pub(super) use self::multi_step_op::{MultiStepOp, NextStep, runs};

pub(super) struct Operations {
    lane_ops: Slab<LaneOp>,
    rows: Slab<MultiStepOp>,
    /// Operations with bytes that are not in a chunk yet.
    waiting: VecDeque<u32>,
    /// Operations on regions whose key has not arrived yet.
    key_pending: Vec<u32>,
    /// Chunks of dead lanes, to be posted again.
    retries: VecDeque<Chunk>,
    /// Immediate data of writes that waits until the write, posted again, is placed: operation and sequence number.
    deferred: Vec<(u32, u64)>,
}

impl Operations {
    pub(super) fn new() -> Self {
        Operations {
            lane_ops: Slab::new(),
            rows: Slab::new(),
            waiting: VecDeque::new(),
            key_pending: Vec::new(),
            retries: VecDeque::new(),
            deferred: Vec::new(),
        }
    }

    // Operations of lanes.

    #[inline]
    pub(super) fn add_lane_op(&mut self, lane_op: LaneOp) -> u32 {
        self.lane_ops.insert(lane_op)
    }

    #[inline]
    pub(super) fn take_lane_op(&mut self, row: u32) -> Option<LaneOp> {
        self.lane_ops.remove(row)
    }

    /// As [`Operations::take_lane_op`], if it is a whole operation of the caller.
    #[inline]
    pub(super) fn take_whole(&mut self, row: u32) -> Option<WholeOperation> {
        let is_whole = |lane_op: &mut LaneOp| matches!(lane_op.what, LaneOpKind::Whole { .. });
        let LaneOp { bytes, what, .. } = self.lane_ops.remove_if(row, is_whole)?;
        let LaneOpKind::Whole { op_id, window } = what else { return None };
        Some(WholeOperation { bytes, op_id, window })
    }

    // Rows.

    pub(super) fn insert(&mut self, operation: MultiStepOp) -> u32 {
        self.rows.insert(operation)
    }

    #[inline]
    pub(super) fn get(&self, row: u32) -> Option<&MultiStepOp> {
        self.rows.get(row)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, row: u32) -> Option<&mut MultiStepOp> {
        self.rows.get_mut(row)
    }

    /// Takes out a finished operation. It is in no list: its bytes are placed, or it was abandoned.
    pub(super) fn remove(&mut self, row: u32) -> Option<MultiStepOp> {
        self.rows.remove(row)
    }

    /// Takes out all operations, once the link has ended.
    pub(super) fn take_all(&mut self) -> Vec<MultiStepOp> {
        self.waiting.clear();
        self.retries.clear();
        self.key_pending.clear();
        self.deferred.clear();
        self.rows.take_all().collect()
    }

    // Chunks.

    /// Whether no chunk waits for a rail.
    #[inline]
    pub(super) fn has_no_waiting_chunks(&self) -> bool {
        self.waiting.is_empty() && self.retries.is_empty()
    }

    /// Queues an operation to be split into chunks.
    pub(super) fn wait(&mut self, row: u32) {
        self.waiting.push_back(row);
    }

    /// The next chunk to be posted again.
    pub(super) fn first_retry(&self) -> Option<Chunk> {
        self.retries.front().copied()
    }

    pub(super) fn drop_retry(&mut self) {
        self.retries.pop_front();
    }

    pub(super) fn push_retry(&mut self, chunk: Chunk) {
        self.retries.push_back(chunk);
    }

    /// The next chunk, of at most `max_length` bytes, of the first waiting operation.
    pub(super) fn next_chunk(&mut self, max_length: u64) -> Option<Chunk> {
        while let Some(row) = self.waiting.front().copied() {
            match self.rows.get_mut(row) {
                Some(operation) => return Some(operation.next_chunk(row, max_length)),
                None => self.waiting.pop_front(),
            };
        }
        None
    }

    /// Undoes [`Operations::next_chunk`], if no rail takes the chunk.
    pub(super) fn undo_chunk(&mut self, chunk: &Chunk) {
        if let Some(operation) = self.rows.get_mut(chunk.operation) {
            operation.undo_chunk(chunk);
        }
    }

    /// Removes the first waiting operation from the queue if all of it is in chunks.
    pub(super) fn drop_split(&mut self) {
        let first = self.waiting.front().and_then(|row| self.rows.get(*row));
        if first.is_none_or(MultiStepOp::is_split) {
            self.waiting.pop_front();
        }
    }

    /// The first waiting operation waits for a key instead.
    pub(super) fn wait_for_key(&mut self) {
        self.key_pending.extend(self.waiting.pop_front());
    }

    /// Keys or rails have changed: operations that waited for a key try again, before the others.
    pub(super) fn retry_key_pending(&mut self) {
        for row in std::mem::take(&mut self.key_pending).into_iter().rev() {
            self.waiting.push_front(row);
        }
    }

    /// A chunk cannot be posted: its operation fails when its other chunks have completed.
    pub(super) fn abandon(&mut self, chunk: &Chunk, failure: Failure) {
        if let Some(operation) = self.rows.get_mut(chunk.operation) {
            operation.abandon(failure);
        }
        self.waiting.retain(|row| *row != chunk.operation);
        self.key_pending.retain(|row| *row != chunk.operation);
    }

    // Immediate data of writes.

    /// Defers a write's immediate data until the write is placed.
    pub(super) fn defer_write_imm(&mut self, row: u32, sequence: u64) {
        self.deferred.push((row, sequence));
    }

    /// The immediate data that was deferred for this write.
    pub(super) fn take_deferred_write_imm(&mut self, row: u32) -> Option<u64> {
        let at = self.deferred.iter().position(|(operation, _)| *operation == row)?;
        Some(self.deferred.swap_remove(at).1)
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let (waiting, retries) = (self.waiting.len(), self.retries.len());
        let (key_pending, deferred) = (self.key_pending.len(), self.deferred.len());
        format!("waiting {waiting} retries {retries} key_pending {key_pending} deferred {deferred}")
    }
}
