//! What is on the lanes: one row for each operation that a lane has.

use super::header::Stream;
use crate::op::{Op, Work};
use crate::remote::Window;

/// An operation of a lane.
pub(super) struct Part {
    pub(super) rail: u8,
    pub(super) bytes: u64,
    /// If the target received so many messages on this lane, and the lane keeps order, then this took
    /// effect too.
    pub(super) proof: u64,
    pub(super) what: PartKind,
}

pub(super) enum PartKind {
    /// The caller's operation as it is, but for the window: here is the one it came with.
    Whole { token: u64, window: Window },
    /// A piece of an operation.
    Piece(Piece),
    /// A message of a stream.
    Message { stream: Stream, sequence: u64 },
    /// A message that only says what is free again.
    Credit,
    /// The probe of a new lane: first a write, then a read.
    Probe,
}

impl PartKind {
    #[inline]
    pub(super) fn is_message(&self) -> bool {
        matches!(self, PartKind::Message { .. } | PartKind::Credit)
    }
}

/// The caller's operation again, as it came.
pub(super) fn as_it_was(token: u64, window: Window, mut work: Work) -> Op {
    if let Some(target) = work.target_mut() {
        target.window = window;
    }
    Op { token, work }
}

/// Some consecutive bytes of a write or a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) operation: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// A proof that never is: reads are done again, since their bytes are here or they are not.
pub(super) const NEVER: u64 = u64::MAX;

/// Rows with numbers that stay.
pub(super) struct Rows<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Rows<T> {
    #[inline]
    pub(super) fn insert(&mut self, row: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.rows[at as usize] = Some(row);
                at
            }
            None => {
                self.rows.push(Some(row));
                self.rows.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let row = self.rows.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(row)
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.rows.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.rows.get_mut(at as usize)?.as_mut()
    }

    /// Takes out all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        std::mem::take(&mut self.rows).into_iter().flatten()
    }
}
