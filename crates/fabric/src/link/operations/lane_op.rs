//! Operations of lanes, and chunks of the caller's writes and reads.

use crate::link::protocol::header::MessageClass;
use crate::op::{Op, Work};
use crate::remote::Window;

/// One operation on a lane.
pub(in crate::link) struct LaneOp {
    pub(in crate::link) rail: u8,
    pub(in crate::link) bytes: u64,
    /// If the target received this number of messages on an ordered lane, then this operation
    /// took effect too.
    pub(in crate::link) confirmed_at: u64,
    pub(in crate::link) what: LaneOpKind,
}

pub(in crate::link) enum LaneOpKind {
    /// A whole operation of the caller: its id and its window, which are replaced on the lane.
    Whole { op_id: u64, window: Window },
    /// A chunk of a write or a read.
    Chunk(Chunk),
    /// A numbered message.
    Message { class: MessageClass, sequence: u64 },
    /// A message that only reports free slots.
    Credit,
    /// The probe of a new lane: first a write, then a read.
    Probe,
}

impl LaneOpKind {
    /// Whether it is a send on the lane: a message, or a credit.
    #[inline]
    pub(in crate::link) fn is_send(&self) -> bool {
        matches!(self, LaneOpKind::Message { .. } | LaneOpKind::Credit)
    }
}

/// A whole operation of the caller, taken out of the table.
pub(in crate::link) struct WholeOperation {
    pub(in crate::link) bytes: u64,
    pub(in crate::link) op_id: u64,
    pub(in crate::link) window: Window,
}

/// Rebuilds the caller's operation.
pub(in crate::link) fn restore_op(op_id: u64, window: Window, mut work: Work) -> Op {
    restore_window(&mut work, window);
    Op { op_id, work }
}

/// Restores an operation's window.
#[inline]
pub(in crate::link) fn restore_window(work: &mut Work, window: Window) {
    if let Some(target) = work.target_mut() {
        target.window = window;
    }
}

/// A range of bytes of a write or a read.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Chunk {
    /// The row of the operation.
    pub(in crate::link) operation: u32,
    pub(in crate::link) offset: u64,
    pub(in crate::link) length: u64,
}

/// No number of messages confirms that a read completed: reads are always repeated.
pub(in crate::link) const NEVER_CONFIRMED: u64 = u64::MAX;
