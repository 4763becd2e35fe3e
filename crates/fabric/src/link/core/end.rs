//! The end of a link: by its owner, by the peer, by the time, or because something is wrong. Everything that was in
//! flight comes back with an outcome.

use std::time::Duration;

use super::{Core, Ended};
use crate::link::event::Happening;
use crate::link::operations::{PartKind, as_it_was};
use crate::link::protocol::control::Control;
use crate::link::rails::Lost;
use crate::op::{Failure, Work};

impl Core {
    // Time.

    pub(super) fn check_time(&mut self) {
        if self.ended.is_some() {
            return;
        }
        if self.control.take_beat(self.now, &self.config) {
            self.send_control(&Control::Beat);
        }
        if self.control.is_silent(self.now, &self.config) {
            let why = format!("no message from the peer for {:?}", self.config.silence);
            self.fail_link(Failure::PeerGone, &why);
        } else if let Some(since) = self.rails.stranded()
            && self.now >= since + self.config.without_rails
        {
            let each = self.obstacles();
            let why = format!("no rail was up for {:?}: {each}", self.config.without_rails);
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// When something is due by itself.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.ended.is_some() {
            return None;
        }
        let control = self.control.next_due(&self.config);
        let rails = self.rails.next_due(self.now, &self.config);
        Some(rails.map_or(control, |rails| rails.min(control)))
    }

    // The end.

    /// Ends the link from our side: nothing of the peer's reaches our memory any more.
    pub(crate) fn close(&mut self) {
        self.end(Failure::Flushed, "it was closed on this side", Happening::Closed);
        self.settle_end();
    }

    pub(in crate::link) fn fail_link(&mut self, failure: Failure, why: &str) {
        self.end(failure, why, Happening::Ended);
    }

    pub(super) fn end(&mut self, failure: Failure, why: &str, what: Happening) {
        if self.ended.is_some() {
            return;
        }
        // The peer may be gone already; if it is not, it need not find out by silence.
        let goodbye = match what {
            Happening::Closed => Control::Bye { orderly: true, why: "it was closed".to_owned() },
            _ => Control::Bye { orderly: false, why: why.to_owned() },
        };
        let _ = self.control.send(&goodbye);
        self.ended = Some(Ended { failure, why: why.to_owned() });
        self.completions.stats().end(failure);
        self.rails.close(self.now);
        self.journal.note(self.now, what, String::new(), why);
    }

    /// Gives everything back, once the lanes have.
    pub(super) fn settle_end(&mut self) {
        let Some(ended) = self.ended.clone() else { return };
        if self.rails.live_count() > 0 {
            return;
        }
        for Lost { part, failure, work } in self.rails.take_all_unconfirmed() {
            if let PartKind::Whole { token, window } = part.what {
                let op = as_it_was(token, window, work);
                let outcome = match failure {
                    Failure::Access => failure,
                    _ => outcome(&ended, &op.work, true),
                };
                self.completions.finish(op, Err(outcome));
            }
        }
        self.messages.stop_sending();
        for operation in self.operations.take_all() {
            let outcome = operation
                .known_failure()
                .unwrap_or_else(|| outcome(&ended, operation.work(), operation.is_begun()));
            self.completions.finish(operation.into_op().0, Err(outcome));
        }
        self.settle_receives();
    }

    /// At a link that is over, gives back the receives that no message will come for.
    pub(super) fn settle_receives(&mut self) {
        let Some(ended) = &self.ended else { return };
        if self.rails.live_count() > 0 {
            return;
        }
        let inbox = self.messages.inbox_mut();
        let failure = match ended.failure {
            Failure::Flushed => {
                inbox.throw_away();
                Failure::Flushed
            }
            _ => Failure::PeerGone,
        };
        for receive in inbox.take_receives() {
            self.completions.finish(receive, Err(failure));
        }
    }
}

/// What is said of an operation that was in flight when the link ended.
fn outcome(ended: &Ended, work: &Work, begun: bool) -> Failure {
    match (ended.failure, work) {
        (Failure::Flushed, _) => Failure::Flushed,
        // A read that did not come back changed nothing.
        (_, Work::Read { .. }) => Failure::PeerGone,
        _ if begun => Failure::Unknown,
        _ => Failure::PeerGone,
    }
}
