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
