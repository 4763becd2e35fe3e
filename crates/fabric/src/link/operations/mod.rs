//! The caller's unfinished operations, and the operations of lanes they consist of.
//!
//! A part is one operation of a lane. Most of the caller's operations are a single part; the others have a
//! row, whose number their parts and messages refer to. A row whose bytes are not all cut into pieces is in `waiting` or
//! `key_pending`, never in both. Once a row is removed its number is in no list, since it is reused.

mod operation;
mod part;

use std::collections::VecDeque;

use crate::op::Failure;
use crate::slab::Slab;

pub(super) use self::operation::{NextStep, Operation, runs};
pub(super) use self::part::{
    NO_PROOF, Part, PartKind, Piece, WholeOperation, restore_op, restore_window,
};

pub(super) struct Operations {
    parts: Slab<Part>,
    rows: Slab<Operation>,
    /// Operations with bytes that are not in a piece yet.
    waiting: VecDeque<u32>,
    /// Operations on regions whose key has not arrived yet.
    key_pending: Vec<u32>,
    /// Pieces of dead lanes, to be posted again.
    retries: VecDeque<Piece>,
    /// Notices that wait until their write, posted again, is placed: operation and sequence number.
    deferred: Vec<(u32, u64)>,
}

impl Operations {
    pub(super) fn new() -> Self {
        Operations {
            parts: Slab::new(),
            rows: Slab::new(),
            waiting: VecDeque::new(),
            key_pending: Vec::new(),
            retries: VecDeque::new(),
            deferred: Vec::new(),
        }
    }

    // Parts.

    #[inline]
    pub(super) fn add_part(&mut self, part: Part) -> u32 {
        self.parts.insert(part)
    }

    #[inline]
    pub(super) fn take_part(&mut self, at: u32) -> Option<Part> {
        self.parts.remove(at)
    }

    /// As [`Operations::take_part`], if the part is a whole operation of the caller.
    #[inline]
    pub(super) fn take_whole(&mut self, at: u32) -> Option<WholeOperation> {
        let is_whole = |part: &mut Part| matches!(part.what, PartKind::Whole { .. });
        let Part { bytes, what, .. } = self.parts.remove_if(at, is_whole)?;
        let PartKind::Whole { op_id, window } = what else { return None };
        Some(WholeOperation { bytes, op_id, window })
    }

    // Rows.

    pub(super) fn insert(&mut self, operation: Operation) -> u32 {
        self.rows.insert(operation)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Operation> {
        self.rows.get(number)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Operation> {
        self.rows.get_mut(number)
    }

    /// Takes out a finished operation. It is in no list: its bytes are placed, or it was abandoned.
    pub(super) fn remove(&mut self, number: u32) -> Option<Operation> {
        self.rows.remove(number)
    }

    /// Takes out all operations, once the link has ended.
    pub(super) fn take_all(&mut self) -> Vec<Operation> {
        self.waiting.clear();
        self.retries.clear();
        self.key_pending.clear();
        self.deferred.clear();
        self.rows.take_all().collect()
    }

    // Pieces.

    /// Whether no piece waits for a rail.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.retries.is_empty()
    }

    /// Queues an operation to be cut into pieces.
    pub(super) fn wait(&mut self, number: u32) {
        self.waiting.push_back(number);
    }

    /// The next piece to be posted again.
    pub(super) fn first_retry(&self) -> Option<Piece> {
        self.retries.front().copied()
    }

    pub(super) fn drop_retry(&mut self) {
        self.retries.pop_front();
    }

    pub(super) fn push_retry(&mut self, piece: Piece) {
        self.retries.push_back(piece);
    }

    /// Cuts the next piece, of at most `chunk` bytes, from the first waiting operation.
    pub(super) fn cut(&mut self, chunk: u64) -> Option<Piece> {
        while let Some(number) = self.waiting.front().copied() {
            match self.rows.get_mut(number) {
                Some(operation) => return Some(operation.cut(number, chunk)),
                None => self.waiting.pop_front(),
            };
        }
        None
    }

    /// Undoes the last cut, if no rail takes the piece.
    pub(super) fn uncut(&mut self, piece: &Piece) {
        if let Some(operation) = self.rows.get_mut(piece.operation) {
            operation.uncut(piece);
        }
    }

    /// Removes the first waiting operation from the queue if all of it is in pieces.
    pub(super) fn drop_cut(&mut self) {
        let first = self.waiting.front().and_then(|number| self.rows.get(*number));
        if first.is_none_or(Operation::is_cut) {
            self.waiting.pop_front();
        }
    }

    /// The first waiting operation waits for a key instead.
    pub(super) fn wait_for_key(&mut self) {
        self.key_pending.extend(self.waiting.pop_front());
    }

    /// Keys or rails have changed: operations that waited for a key try again, before the others.
    pub(super) fn retry_keyless(&mut self) {
        for number in std::mem::take(&mut self.key_pending).into_iter().rev() {
            self.waiting.push_front(number);
        }
    }

    /// A piece cannot be posted: its operation fails when its other pieces have completed.
    pub(super) fn abandon(&mut self, piece: &Piece, failure: Failure) {
        if let Some(operation) = self.rows.get_mut(piece.operation) {
            operation.abandon(failure);
        }
        self.waiting.retain(|number| *number != piece.operation);
        self.key_pending.retain(|number| *number != piece.operation);
    }

    // Notices.

    /// Defers a notice until its write is placed.
    pub(super) fn defer_notice(&mut self, number: u32, sequence: u64) {
        self.deferred.push((number, sequence));
    }

    /// The notice that was deferred for this write.
    pub(super) fn take_deferred_notice(&mut self, number: u32) -> Option<u64> {
        let at = self.deferred.iter().position(|(operation, _)| *operation == number)?;
        Some(self.deferred.swap_remove(at).1)
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let (waiting, retries) = (self.waiting.len(), self.retries.len());
        let (key_pending, deferred) = (self.key_pending.len(), self.deferred.len());
        format!("waiting {waiting} retries {retries} key_pending {key_pending} deferred {deferred}")
    }
}
