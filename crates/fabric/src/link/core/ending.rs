//! The end of a link: by its owner, by the peer, by a timeout, or because of an error. Every operation in flight
//! completes with an outcome.

use std::time::Duration;

use super::{Core, LinkEnd};
use crate::link::event::EventKind;
use crate::link::operations::{LaneOpKind, restore_op};
use crate::link::protocol::control::Control;
use crate::link::rails::UnconfirmedOp;
use crate::op::{Failure, Work};

impl Core {
    // Timeouts.

    pub(super) fn check_time(&mut self) {
        if self.ended.is_some() {
            return;
        }
        if self.event_log.held_until().is_some_and(|until| until <= self.now) {
            self.event_log.record_held();
        }
        if self.control.take_heartbeat(self.now, &self.config) {
            self.send_control(&Control::Heartbeat);
        }
        if self.control.has_timed_out(self.now, &self.config) {
            let why = format!("no message from the peer for {:?}", self.config.peer_timeout);
            self.fail_link(Failure::PeerGone, &why);
        } else if let Some(since) = self.rails.no_rail_since()
            && self.now >= since + self.config.no_rail_timeout
        {
            let each = self.rail_problems();
            let why = format!("no rail was up for {:?}: {each}", self.config.no_rail_timeout);
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// When the next timer expires.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.ended.is_some() {
            return None;
        }
        let control = self.control.next_due(&self.config);
        let rails = self.rails.next_due(self.now, &self.config);
        [Some(control), rails, self.event_log.held_until()].into_iter().flatten().min()
    }

    // The end.

    /// Closes the link from this end: the peer cannot access our memory any more.
    pub(crate) fn close(&mut self) {
        self.end(Failure::Flushed, "closed by this end", EventKind::Closed);
        self.finish_end();
    }

    pub(in crate::link) fn fail_link(&mut self, failure: Failure, why: &str) {
        self.end(failure, why, EventKind::Ended);
    }

    pub(super) fn end(&mut self, failure: Failure, why: &str, what: EventKind) {
        if self.ended.is_some() {
            return;
        }
        // If the peer is still there, it need not wait for a timeout.
        let goodbye = match what {
            EventKind::Closed => {
                Control::Bye { orderly: true, why: "closed by its owner".to_owned() }
            }
            _ => Control::Bye { orderly: false, why: why.to_owned() },
        };
        let _ = self.control.send(&goodbye);
        let orderly = what == EventKind::Closed;
        self.ended = Some(LinkEnd { failure, why: why.to_owned(), orderly });
        self.completions.stats().set_ended(failure);
        self.rails.close(self.now);
        self.event_log.record(self.now, what, String::new(), why);
    }

    /// Completes all operations of an ended link, once all lanes have returned theirs.
    pub(super) fn finish_end(&mut self) {
        let Some(ended) = self.ended.clone() else { return };
        if self.rails.lane_count() > 0 {
            return;
        }
        for UnconfirmedOp { lane_op, failure, work } in self.rails.take_all_unconfirmed() {
            if let LaneOpKind::Whole { op_id, window } = lane_op.what {
                let op = restore_op(op_id, window, work);
                let outcome = match failure {
                    Failure::Access => failure,
                    _ => outcome(&ended, &op.work, true),
                };
                self.completions.finish(op, Err(outcome));
            }
        }
        for send in self.messages.stop_sending() {
            let outcome = outcome(&ended, &send.work, true);
            self.completions.finish(send, Err(outcome));
        }
        for operation in self.operations.take_all() {
            let outcome = operation
                .known_failure()
                .unwrap_or_else(|| outcome(&ended, operation.work(), operation.is_started()));
            self.completions.finish(operation.into_op().0, Err(outcome));
        }
        self.settle_receives();
    }

    /// Completes the receives of an ended link that no message will arrive for.
    pub(super) fn settle_receives(&mut self) {
        let Some(ended) = &self.ended else { return };
        if self.rails.lane_count() > 0 {
            return;
        }
        let inbox = self.messages.inbox_mut();
        let failure = match ended.failure {
            Failure::Flushed => {
                inbox.discard_messages();
                Failure::Flushed
            }
            _ => Failure::PeerGone,
        };
        for receive in inbox.take_receives() {
            self.completions.finish(receive, Err(failure));
        }
    }
}

/// The outcome of an operation that was in flight when the link ended.
fn outcome(ended: &LinkEnd, work: &Work, started: bool) -> Failure {
    match (ended.failure, work) {
        (Failure::Flushed, _) => Failure::Flushed,
        // A read that did not complete changed nothing.
        (_, Work::Read { .. }) => Failure::PeerGone,
        _ if started => Failure::Unknown,
        _ => Failure::PeerGone,
    }
}
