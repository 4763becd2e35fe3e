//! What is on the lanes: one row for each operation that a lane has.

use crate::link::protocol::header::Stream;
use crate::op::{Op, Work};
use crate::remote::Window;

/// An operation of a lane.
pub(in crate::link) struct Part {
    pub(in crate::link) rail: u8,
    pub(in crate::link) bytes: u64,
    /// If the target received so many messages on this lane, and the lane keeps order, then this took
    /// effect too.
    pub(in crate::link) proof: u64,
    pub(in crate::link) what: PartKind,
}

pub(in crate::link) enum PartKind {
    /// The caller's operation as it is, but for the window: here is the one it came with.
    Whole { token: u64, window: Window },
    /// A piece of an operation.
    Piece(Piece),
    /// A message of a stream.
    Message { stream: Stream, sequence: u64 },
    /// A message that only reports what is free again.
    Credit,
    /// The probe of a new lane: first a write, then a read.
    Probe,
}

impl PartKind {
    #[inline]
    pub(in crate::link) fn is_message(&self) -> bool {
        matches!(self, PartKind::Message { .. } | PartKind::Credit)
    }
}

/// One of the caller's operations, taken out of the table.
pub(in crate::link) struct Whole {
    pub(in crate::link) bytes: u64,
    pub(in crate::link) token: u64,
    pub(in crate::link) window: Window,
}

/// The caller's operation again, as it came.
pub(in crate::link) fn as_it_was(token: u64, window: Window, mut work: Work) -> Op {
    restore(&mut work, window);
    Op { token, work }
}

/// Gives an operation its window back.
#[inline]
pub(in crate::link) fn restore(work: &mut Work, window: Window) {
    if let Some(target) = work.target_mut() {
        target.window = window;
    }
}

/// Some consecutive bytes of a write or a read.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Piece {
    pub(in crate::link) operation: u32,
    pub(in crate::link) offset: u64,
    pub(in crate::link) length: u64,
}

/// A proof that never is: reads are done again, since their bytes are here or they are not.
pub(in crate::link) const NEVER: u64 = u64::MAX;
