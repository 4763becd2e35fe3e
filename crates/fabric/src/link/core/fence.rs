//! How lanes end: each end closes its own, reports how many messages had come, and only when both have done
//! so is anything done again. A write of a dead lane may land until its *target* has closed.

use std::time::Duration;

use super::Core;
use crate::link::operations::{Operation, PartKind, Piece, as_it_was};
use crate::link::rails::{Lost, State};
use crate::op::Failure;

impl Core {
    /// A lane is dead, or could not be made.
    pub(in crate::link) fn fail_rail(&mut self, at: u8, why: &str) {
        if let Some(change) = self.rails.fail(at, self.now, why, self.config.settle) {
            self.note(change, why);
        }
    }

    /// What is due on each rail, and which are to be tried again.
    pub(super) fn check_rails(&mut self) {
        for at in 0..self.rails.count() {
            self.check_rail(at as u8);
        }
        if self.rails.leads() && self.ended.is_none() {
            self.rails.try_due(self.now);
        }
    }

    /// What is due on a rail: its end, if everything is back, or its death, if it stands still.
    pub(super) fn check_rail(&mut self, at: u8) {
        match self.rails.get(at).state() {
            State::Standby { .. } => self.rails.tidy(at, self.now, self.config.settle),
            State::Trying { until, .. } if until <= self.now => {
                self.fail_rail(at, "it was not ready in time");
            }
            State::Fencing { since } => {
                self.fence(at);
                self.limit_fence(at, since);
            }
            State::Up { .. } | State::Trying { .. } => self.check_progress(at),
        }
    }

    /// A lane on which nothing was completed for too long is dead.
    fn check_progress(&mut self, at: u8) {
        let timeout = self.config.op_timeout;
        let lane = self.rails.lane(at);
        if lane.is_none_or(|lane| !lane.is_stuck(self.now, timeout)) {
            return;
        }
        // Perhaps it was only us who did not look.
        self.poll_rail(at);
        let lane = self.rails.lane(at);
        if lane.is_some_and(|lane| !lane.has_progressed(self.now)) {
            let timeout = timeout.as_millis();
            self.fail_rail(at, &format!("nothing was completed for {timeout} ms"));
        }
    }

    fn fence(&mut self, at: u8) {
        if let Some(lane) = self.rails.detach(at) {
            // What lies in its slots must outlive them.
            let inbox = self.messages.inbox_mut();
            inbox.evacuate(at, |slot, payload| lane.messages().payload(slot, payload));
            self.rails.discard(at, lane);
        }
        // One that is still being made is not waited for, since a device may not answer: nothing was ever posted on it, and
        // the peer posts nothing but a probe before it knows of ours.
        if self.rails.lane(at).is_some() {
            return;
        }
        let report = self.rails.get_mut(at).report_fenced(at);
        if let Some(report) = report.filter(|_| self.ended.is_none()) {
            self.send_control(&report);
        }
        if let Some(received) = self.rails.get(at).received_by_peer() {
            self.resolve(at, received);
        }
    }

    /// A peer that lives and does not close its end leaves what was in flight undecided.
    fn limit_fence(&mut self, at: u8, since: Duration) {
        let limit = self.config.silence;
        let fencing = self.rails.get(at).is_fencing();
        if fencing && self.ended.is_none() && self.now >= since + limit {
            let name = self.rails.name(at);
            let why = format!("{name} was not closed at both ends within {limit:?}");
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// Both ends are closed, and the peer has received so many messages: now it is known what happened.
    fn resolve(&mut self, at: u8, received: u64) {
        let rail = self.rails.get_mut(at);
        rail.end_fence(self.now, &self.config);
        let arrived = rail.surely_arrived();
        // What was reported to the peer by this lane may be lost with it.
        self.messages.inbox_mut().report_again();
        if received < arrived {
            let name = self.rails.name(at);
            let why = format!("of {arrived} messages by {name} the peer has only {received}");
            return self.fail_link(Failure::ProtocolError, &why);
        }
        let (unconfirmed, ordered) = self.rails.get_mut(at).take_unconfirmed();
        for lost in unconfirmed {
            // On a lane without order (libfabric's) the peer's number says nothing of writes: they are done again, which
            // is safe behind the fence. Messages go again under numbers of their own, by which the peer knows those that
            // it has. So nobody has to report which ones came.
            if ordered && received >= lost.part.proof {
                self.placed(at, lost.part, lost.work);
            } else {
                self.again(lost);
            }
        }
    }

    /// It did not happen: it is done again, unless it can never be.
    fn again(&mut self, lost: Lost) {
        let Lost { part, failure, work } = lost;
        let hopeless = failure == Failure::Access;
        match part.what {
            PartKind::Whole { token, window } => {
                let op = as_it_was(token, window, work);
                if hopeless {
                    return self.completions.finish(op, Err(failure));
                }
                let operation = Operation::lost(op, failure);
                let length = operation.total();
                let operation = self.operations.insert(operation);
                self.operations.do_again(Piece { operation, offset: 0, length });
            }
            PartKind::Piece(piece) => {
                let operation = self.operations.get_mut(piece.operation);
                let may = operation.is_none_or(|operation| operation.may_be_done_again(failure));
                if hopeless || !may {
                    return self.abandon(&piece, failure);
                }
                self.operations.do_again(piece);
            }
            PartKind::Message { stream, sequence } => self.message_again(stream, sequence),
            PartKind::Credit | PartKind::Probe => {}
        }
    }
}
