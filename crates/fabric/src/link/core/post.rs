//! Posting operations: they are refused, posted to a lane whole, or split into chunks and messages.

use super::Core;
use crate::link::messages::UnnumberedMessage;
use crate::link::operations::{Chunk, LaneOp, LaneOpKind, MultiStepOp};
use crate::link::protocol::header::MessageClass;
use crate::link::rails::RailChoice;
use crate::op::{Failure, Op, Work};
use crate::region::Rights;
use crate::remote::Target;

impl Core {
    #[inline]
    pub(super) fn has_capacity(&self, op: &Op) -> bool {
        match op.work {
            Work::Receive { .. } => self.messages.inbox().receives() < self.config.max_receives,
            _ => self.completions.in_flight() < self.config.depth,
        }
    }

    /// Checks that can be done here: an operation that the peer refuses would end a lane.
    #[inline]
    pub(super) fn refusal(&self, work: &Work) -> Option<Failure> {
        if let Some(ended) = &self.ended {
            // Messages that arrived before the end can still be received.
            if matches!(work, Work::Receive { .. }) && self.messages.inbox().has_messages() {
                return None;
            }
            return Some(match ended.failure {
                Failure::Flushed => Failure::Flushed,
                _ => Failure::PeerGone,
            });
        }
        if let Err(failure) = self.caps.allow(work, self.regions.link()) {
            return Some(failure);
        }
        let allowed = work.target().is_none_or(|target| is_allowed(work, target, work.total()));
        (!allowed).then_some(Failure::Access)
    }

    #[cold]
    pub(super) fn refuse(&mut self, op: Op, failure: Failure) {
        if !matches!(op.work, Work::Receive { .. }) {
            self.completions.accept(1);
        }
        self.completions.finish(op, Err(failure));
    }

    #[inline]
    pub(super) fn start(&mut self, op: Op) {
        if let Work::Receive { .. } = op.work {
            self.messages.inbox_mut().post(op);
            self.match_receives();
            return self.settle_receives();
        }
        self.completions.accept(1);
        let plain = matches!(op.work, Work::Write { imm: None, .. } | Work::Read { .. });
        if plain && self.operations.has_no_waiting_chunks() {
            match self.start_whole(op) {
                None => return,
                Some(op) => return self.start_operation(op),
            }
        }
        self.start_operation(op);
    }

    /// An operation that one lane can execute whole: nothing is copied, only the window is replaced.
    #[inline]
    fn start_whole(&mut self, mut op: Op) -> Option<Op> {
        let bytes = op.work.total() as u64;
        let Some(target) = op.work.target_mut() else { return Some(op) };
        if bytes > self.config.max_chunk as u64 {
            return Some(op);
        }
        let limit = self.config.max_in_flight as u64;
        let RailChoice::Rail(rail, window) =
            self.rails.choose(target.window.region(), bytes, limit)
        else {
            return Some(op);
        };
        let window = std::mem::replace(&mut target.window, window);
        let what = LaneOpKind::Whole { op_id: op.op_id, window };
        let lane_op = self.post_lane_op(rail, bytes, op.work, what);
        self.completions.posted_whole(lane_op, 1);
        None
    }

    fn start_operation(&mut self, op: Op) {
        let message: Option<fn(u32) -> UnnumberedMessage> = match op.work {
            Work::Send { .. } => Some(UnnumberedMessage::Send),
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => Some(UnnumberedMessage::Atomic),
            _ => None,
        };
        let timed = self.completions.posted_in_steps();
        let row = self.operations.insert(MultiStepOp::new(op, timed));
        match message {
            Some(message) => self.messages.push(message(row)),
            None if !self.start_with_imm(row) => self.operations.wait(row),
            None => {}
        }
    }

    /// A short write with immediate data: on an ordered lane the immediate data is sent right behind the write.
    fn start_with_imm(&mut self, row: u32) -> bool {
        let Some(operation) = self.operations.get(row) else { return false };
        let total = operation.total();
        let messages = self.messages.outgoing(MessageClass::Caller);
        let nothing_before =
            self.operations.has_no_waiting_chunks() && messages.is_empty() && messages.may_send();
        if !operation.has_imm() || total > self.config.max_chunk as u64 || !nothing_before {
            return false;
        }
        let limit = self.config.max_in_flight as u64;
        let RailChoice::Rail(rail, window) = self.rails.choose(operation.region(), total, limit)
        else {
            return false;
        };
        let Some(lane) = self.rails.lane(rail) else { return false };
        // For the write, and for its message.
        let has_capacity =
            lane.free_entries() >= 2 && lane.has_message_capacity(MessageClass::Caller);
        if !lane.is_ordered() || !has_capacity {
            return false;
        }
        if let Some(operation) = self.operations.get_mut(row) {
            operation.make_one_chunk();
        }
        self.post_chunk(rail, Chunk { operation: row, offset: 0, length: total }, window);
        self.queue_write_imm(row);
        self.send_next(MessageClass::Caller, Some(rail));
        true
    }

    /// Queues an operation on a rail's lane.
    #[inline]
    pub(super) fn post_lane_op(
        &mut self,
        rail: u8,
        bytes: u64,
        work: Work,
        what: LaneOpKind,
    ) -> u32 {
        let Some(lane) = self.rails.lane_mut(rail) else { return u32::MAX };
        let confirmed_at = match what.is_send() {
            true => lane.message_completed_at(),
            false => lane.confirmed_at(&work),
        };
        lane.add(1, bytes);
        let lane_op = self.operations.add_lane_op(LaneOp { rail, bytes, confirmed_at, what });
        lane.push(Op { op_id: u64::from(lane_op), work });
        lane_op
    }
}

/// Whether the window's rights and length allow it.
#[inline]
pub(super) fn is_allowed(work: &Work, target: &Target, length: usize) -> bool {
    let wanted = match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        _ => Rights { atomic: true, ..Rights::NONE },
    };
    target.window.rights().allow(wanted) && target.contains(length)
}
