//! Operations of the caller's that are not over, and what lanes have of them.
//!
//! A part is one operation of a lane. Most of the caller's operations are one part and nothing else; the others have a
//! row, by whose number their parts and messages know them. A row whose bytes are not all in pieces is `waiting` or
//! `keyless`, and never both. A number is in no list once its row is removed: it may be another's then.

mod operation;
mod part;

use std::collections::VecDeque;

use crate::op::Failure;
use crate::slab::Slab;

pub(super) use self::operation::{Next, Operation, runs};
pub(super) use self::part::{NEVER, Part, PartKind, Piece, Whole, as_it_was, restore};

pub(super) struct Operations {
    parts: Slab<Part>,
    rows: Slab<Operation>,
    /// Those with bytes that are in no piece yet.
    waiting: VecDeque<u32>,
    /// Those on regions whose key has not come yet.
    keyless: Vec<u32>,
    /// Pieces of dead lanes, to be done again.
    again: VecDeque<Piece>,
    /// Notices that must wait until their write, done again, is placed: whose they are, and their place among the
    /// messages.
    held: Vec<(u32, u64)>,
}

impl Operations {
    pub(super) fn new() -> Self {
        Operations {
            parts: Slab::new(),
            rows: Slab::new(),
            waiting: VecDeque::new(),
            keyless: Vec::new(),
            again: VecDeque::new(),
            held: Vec::new(),
        }
    }

    // What lanes have.

    #[inline]
    pub(super) fn add_part(&mut self, part: Part) -> u32 {
        self.parts.insert(part)
    }

    #[inline]
    pub(super) fn take_part(&mut self, at: u32) -> Option<Part> {
        self.parts.remove(at)
    }

    /// As [`Operations::take_part`], of one that is the caller's operation as it is; any other stays.
    #[inline]
    pub(super) fn take_whole(&mut self, at: u32) -> Option<Whole> {
        let is_whole = |part: &mut Part| matches!(part.what, PartKind::Whole { .. });
        let Part { bytes, what, .. } = self.parts.remove_if(at, is_whole)?;
        let PartKind::Whole { token, window } = what else { return None };
        Some(Whole { bytes, token, window })
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

    /// Takes out one that is over. It is in no list: its bytes are placed, or it was abandoned.
    pub(super) fn remove(&mut self, number: u32) -> Option<Operation> {
        self.rows.remove(number)
    }

    /// Takes out everything that is not on a lane, once the link is over.
    pub(super) fn take_all(&mut self) -> Vec<Operation> {
        self.waiting.clear();
        self.again.clear();
        self.keyless.clear();
        self.held.clear();
        self.rows.take_all().collect()
    }

    // Pieces.

    /// Whether no piece waits for a rail.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.again.is_empty()
    }

    /// It shall be cut into pieces, after those that wait already.
    pub(super) fn wait(&mut self, number: u32) {
        self.waiting.push_back(number);
    }

    /// The next piece of a dead lane.
    pub(super) fn first_again(&self) -> Option<Piece> {
        self.again.front().copied()
    }

    pub(super) fn drop_again(&mut self) {
        self.again.pop_front();
    }

    pub(super) fn do_again(&mut self, piece: Piece) {
        self.again.push_back(piece);
    }

    /// Cuts the next piece, at most so long, of the first that waits.
    pub(super) fn cut(&mut self, chunk: u64) -> Option<Piece> {
        while let Some(number) = self.waiting.front().copied() {
            match self.rows.get_mut(number) {
                Some(operation) => return Some(operation.cut(number, chunk)),
                None => self.waiting.pop_front(),
            };
        }
        None
    }

    /// A piece that was just cut finds no rail: its bytes are in no piece again.
    pub(super) fn uncut(&mut self, piece: &Piece) {
        if let Some(operation) = self.rows.get_mut(piece.operation) {
            operation.uncut(piece);
        }
    }

    /// The first that waits does so no more, if all of it is in pieces.
    pub(super) fn drop_cut(&mut self) {
        let first = self.waiting.front().and_then(|number| self.rows.get(*number));
        if first.is_none_or(Operation::is_cut) {
            self.waiting.pop_front();
        }
    }

    /// The first that waits does so until a key comes.
    pub(super) fn wait_for_key(&mut self) {
        self.keyless.extend(self.waiting.pop_front());
    }

    /// Keys came, or rails: who waited for that tries again, before the others.
    pub(super) fn retry_keyless(&mut self) {
        for number in std::mem::take(&mut self.keyless).into_iter().rev() {
            self.waiting.push_front(number);
        }
    }

    /// A piece that cannot be: the operation fails when its other pieces are back.
    pub(super) fn abandon(&mut self, piece: &Piece, failure: Failure) {
        if let Some(operation) = self.rows.get_mut(piece.operation) {
            operation.abandon(failure);
        }
        self.waiting.retain(|number| *number != piece.operation);
        self.keyless.retain(|number| *number != piece.operation);
    }

    // Notices.

    /// Holds a notice until its write is placed.
    pub(super) fn hold(&mut self, number: u32, sequence: u64) {
        self.held.push((number, sequence));
    }

    /// The notice that waited for this write.
    pub(super) fn take_held(&mut self, number: u32) -> Option<u64> {
        let at = self.held.iter().position(|(operation, _)| *operation == number)?;
        Some(self.held.swap_remove(at).1)
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let (waiting, again) = (self.waiting.len(), self.again.len());
        let (keyless, held) = (self.keyless.len(), self.held.len());
        format!("waiting {waiting} again {again} keyless {keyless} held {held}")
    }
}
