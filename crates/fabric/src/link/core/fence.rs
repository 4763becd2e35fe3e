//! Fencing of dead lanes: each end closes its own lane and reports the number of messages it received; operations are
//! repeated only when both have done so. A write of a dead lane may still take effect until its *target* has closed.

use std::time::Duration;

use super::Core;
use super::completions::cause;
use crate::link::event::EventKind;
use crate::link::operations::{Chunk, LaneOpKind, MultiStepOp, restore_op};
use crate::link::rails::{RailChange, RailState, UnconfirmedOp};
use crate::op::Failure;

impl Core {
    /// A lane is dead, or could not be set up.
    pub(in crate::link) fn fail_rail(&mut self, rail: u8, why: &str) {
        if let Some(change) = self.rails.fail(rail, self.now, why, self.config.retry_delay) {
            self.record_change(change, why);
        }
    }

    /// An operation of a lane failed. If the peer is gone, it may have closed the link: its goodbye arrives separately. A lane
    /// whose peer is gone may first return the operations that were still queued at this end.
    pub(super) fn lane_failed(&mut self, rail: u8, failure: Failure) {
        let why = cause(failure);
        if !matches!(failure, Failure::PeerGone | Failure::Flushed) {
            return self.fail_rail(rail, why);
        }
        let change = self.rails.fail(rail, self.now, why, self.config.retry_delay);
        match change {
            Some(RailChange { what: EventKind::RailDown, name, in_use }) => {
                self.event_log.hold(self.now, EventKind::RailDown, name, why);
                if let Some(names) = in_use {
                    self.event_log.hold(self.now, EventKind::Switch, names, why);
                    self.operations.retry_key_pending();
                }
            }
            Some(change) => self.record_change(change, why),
            None => {}
        }
    }

    /// Handles timers of all rails, and starts rails that are due.
    pub(super) fn check_rails(&mut self) {
        for rail in 0..self.rails.count() {
            self.check_rail(rail as u8);
        }
        if self.ended.is_none() {
            self.rails.plan_if_due(self.now, &self.config);
            if self.rails.is_initiator() {
                self.rails.try_due(self.now);
            }
        }
    }

    /// Handles timers of a rail: the end of its fence, or the death of a lane without progress.
    pub(super) fn check_rail(&mut self, rail: u8) {
        match self.rails.get(rail).state() {
            RailState::NotTried | RailState::Down { .. } | RailState::GivenUp => {
                self.rails.release_broken(rail, self.now, self.config.retry_delay)
            }
            RailState::Trying { until, .. } if until <= self.now => {
                self.fail_rail(rail, "the setup timed out");
            }
            RailState::Fencing { since } => {
                self.advance_fence(rail);
                self.limit_fence(rail, since);
            }
            RailState::Up { .. } | RailState::Trying { .. } => self.check_progress(rail),
        }
    }

    /// A lane without a completion for too long is dead.
    fn check_progress(&mut self, rail: u8) {
        let timeout = self.config.op_timeout;
        let lane = self.rails.lane(rail);
        if lane.is_none_or(|lane| !lane.is_stuck(self.now, timeout)) {
            return;
        }
        // Perhaps this end did not poll for a while.
        self.poll_rail(rail);
        let lane = self.rails.lane(rail);
        if lane.is_some_and(|lane| !lane.has_progressed(self.now)) {
            let timeout = timeout.as_millis();
            self.fail_rail(rail, &format!("no completion for {timeout} ms"));
        }
    }

    /// The next steps of a fence, as far as they are possible now: takes out our closed lane, reports that, and resolves what is
    /// unconfirmed once the peer has reported too.
    fn advance_fence(&mut self, rail: u8) {
        if let Some(lane) = self.rails.detach(rail) {
            // Messages in its slots must outlive them.
            if let Some(slots) = lane.slots() {
                let inbox = self.messages.inbox_mut();
                inbox.copy_out_of_slots(rail, |slot, payload| slots.payload(slot, payload));
            }
            self.rails.discard(rail, lane);
        }
        // A lane that is still being set up is not waited for, since a device may not answer: nothing was posted on it, and
        // the peer posts only a probe before our end is connected.
        if self.rails.lane(rail).is_some() {
            return;
        }
        let report = self.rails.get_mut(rail).report_fenced(rail);
        if let Some(report) = report.filter(|_| self.ended.is_none()) {
            self.send_control(&report);
        }
        if let Some(received) = self.rails.get(rail).received_by_peer() {
            self.resolve(rail, received);
        }
    }

    /// While the peer does not close its end, the outcome of operations in flight is unknown: that has a time limit.
    fn limit_fence(&mut self, rail: u8, since: Duration) {
        let limit = self.config.peer_timeout;
        let fencing = self.rails.get(rail).is_fencing();
        if fencing && self.ended.is_none() && self.now >= since + limit {
            let name = self.rails.name(rail);
            let why = format!("{name} was not closed at both ends within {limit:?}");
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// Both ends are closed, and the peer received this number of messages: that decides what took effect.
    fn resolve(&mut self, rail: u8, received: u64) {
        let entry = self.rails.get_mut(rail);
        entry.end_fence(self.now, &self.config);
        let completed = entry.completed_messages();
        // Counts that were reported to the peer on this lane may be lost with it.
        self.messages.inbox_mut().repeat_report();
        if received < completed {
            let name = self.rails.name(rail);
            let why =
                format!("the peer reports {received} of {completed} messages received over {name}");
            return self.fail_link(Failure::ProtocolError, &why);
        }
        let (unconfirmed, ordered) = self.rails.get_mut(rail).take_unconfirmed();
        for lost in unconfirmed {
            // On an unordered lane (libfabric) the number of messages says nothing about writes: they are repeated, which
            // is safe after the fence. Messages are sent again with their sequence numbers, by which the peer recognises
            // duplicates.
            if ordered && received >= lost.lane_op.confirmed_at {
                self.took_effect(rail, lost.lane_op, lost.work);
            } else {
                self.retry(lost);
            }
        }
    }

    /// Repeats an operation that did not take effect, unless it can never succeed.
    fn retry(&mut self, lost: UnconfirmedOp) {
        let UnconfirmedOp { lane_op, failure, work } = lost;
        let permanent = failure == Failure::Access;
        match lane_op.what {
            LaneOpKind::Whole { op_id, window } => {
                let op = restore_op(op_id, window, work);
                if permanent {
                    return self.completions.finish(op, Err(failure));
                }
                let operation = MultiStepOp::lost(op, failure);
                let length = operation.total();
                let operation = self.operations.insert(operation);
                self.operations.push_retry(Chunk { operation, offset: 0, length });
            }
            LaneOpKind::Chunk(chunk) => {
                let operation = self.operations.get_mut(chunk.operation);
                let may = operation.is_none_or(|operation| operation.may_retry(failure));
                if permanent || !may {
                    return self.abandon(&chunk, failure);
                }
                self.operations.push_retry(chunk);
            }
            LaneOpKind::Message { class, sequence } => self.resend(class, sequence),
            LaneOpKind::Credit | LaneOpKind::Probe => {}
        }
    }
}
