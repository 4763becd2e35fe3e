//! The end of a rail's lane: at our end, at the peer's, and the result once both are closed.

use std::time::Duration;

use super::{Rail, RailState};
use crate::link::config::Config;
use crate::link::event::EventKind;
use crate::link::operations::LaneOp;
use crate::link::protocol::control::{Control, Transport};
use crate::link::rails::RailLane;
use crate::op::{Failure, Work};

/// The end of a lane.
#[derive(Default)]
pub(super) struct LaneEnding {
    /// Whether we have reported to the peer that our end is closed.
    reported: bool,
    /// The number of messages received by the peer when it closed its end.
    peer_received: Option<u64>,
    /// The number of messages we received.
    received: u64,
    /// Whether the lane was ordered, and the number of our messages that were completed.
    ordered: bool,
    completed: u64,
}

/// An operation of a dead lane.
pub(in crate::link) struct UnconfirmedOp {
    pub(in crate::link) lane_op: LaneOp,
    pub(in crate::link) failure: Failure,
    pub(in crate::link) work: Work,
}

impl Rail {
    /// Its lane is dead, or could not be set up; returns the event, unless that is known already.
    pub(in crate::link::rails) fn fail(
        &mut self,
        now: Duration,
        why: &str,
        retry_delay: Duration,
    ) -> Option<EventKind> {
        let what = match self.state {
            RailState::Up { since } => {
                let lived = now.saturating_sub(since);
                self.flaps = if lived < 10 * retry_delay { self.flaps + 1 } else { 1 };
                EventKind::RailDown
            }
            RailState::Trying { .. } => EventKind::RailSetupFailed,
            RailState::NotTried
            | RailState::Fencing { .. }
            | RailState::Down { .. }
            | RailState::GivenUp => return None,
        };
        self.start_fence(now);
        self.why = why.to_owned();
        Some(what)
    }

    pub(in crate::link::rails) fn start_fence(&mut self, now: Duration) {
        self.state = RailState::Fencing { since: now };
        self.setup.drop_unconnected();
    }

    /// Closes its lane; `false` if there is none, or it is closed.
    pub(in crate::link::rails) fn close_lane(&mut self) -> bool {
        let open = self.lane.as_mut().filter(|lane| !lane.is_closed());
        open.map(RailLane::close).is_some()
    }

    /// Takes out its lane, if it is closed and has returned all operations.
    pub(in crate::link::rails) fn take_ended(&mut self) -> Option<RailLane> {
        let lane = self.lane.take_if(|lane| lane.has_returned_all())?;
        let counts = lane.counts();
        self.ending.received = counts.received;
        self.ending.completed = counts.completed;
        self.ending.ordered = lane.is_ordered();
        Some(lane)
    }

    /// Stores an unconfirmed operation.
    pub(in crate::link) fn lose(&mut self, lost: UnconfirmedOp) {
        self.unconfirmed.push(lost);
    }

    /// The peer has closed its end, after this number of messages; `false` if that was an older lane.
    pub(in crate::link) fn peer_fenced(&mut self, generation: u32, received: u64) -> bool {
        if self.generation != generation || self.state.may_start() {
            return false;
        }
        self.ending.peer_received = Some(received);
        true
    }

    /// The message that our end is closed; once, and only for a lane that the peer knows of.
    pub(in crate::link) fn report_fenced(&mut self, rail: u8) -> Option<Control> {
        let reported = std::mem::replace(&mut self.ending.reported, true);
        let (generation, received) = (self.generation, self.ending.received);
        (!reported && self.setup.is_announced()).then(|| {
            let why = self.why.clone();
            Control::Fenced { rail, generation, received, why }
        })
    }

    /// The number of messages received by the peer, once its end is closed. A lane that it does not know of has no other end.
    pub(in crate::link) fn received_by_peer(&self) -> Option<u64> {
        self.ending.peer_received.or((!self.setup.is_announced()).then_some(0))
    }

    /// The number of completed messages on the lane that ended.
    pub(in crate::link) fn completed_messages(&self) -> u64 {
        self.ending.completed
    }

    /// Both ends are closed: starts the pause, if it is tried again.
    pub(in crate::link) fn end_fence(&mut self, now: Duration, config: &Config) {
        self.state = match pause(self.plan.transport, self.flaps, config) {
            Some(pause) => RailState::Down { until: now.saturating_add(pause) },
            None => RailState::GivenUp,
        };
    }

    /// An end does not allow it, such as shared memory with another user.
    pub(in crate::link) fn deny(&mut self) {
        self.denied = true;
    }

    /// Whether an end does not allow it.
    pub(in crate::link::rails) fn is_denied(&self) -> bool {
        self.denied
    }

    /// Whether it is not tried again.
    pub(in crate::link::rails) fn is_given_up(&self) -> bool {
        self.state == RailState::GivenUp
    }

    /// The unconfirmed operations of the lane, and whether it was ordered.
    pub(in crate::link) fn take_unconfirmed(&mut self) -> (Vec<UnconfirmedOp>, bool) {
        (std::mem::take(&mut self.unconfirmed), self.ending.ordered)
    }

    /// Whether it is time to release a lost device; if so, that counts as done.
    pub(in crate::link::rails) fn take_release_due(
        &mut self,
        now: Duration,
        retry_delay: Duration,
    ) -> bool {
        let due = self.plan.transport == Transport::Verbs
            && self.generation > 0
            && now >= self.last_release + retry_delay;
        if due {
            self.last_release = now;
        }
        due
    }
}

/// The pause before a rail is tried again; `None` if it is not.
fn pause(transport: Transport, flaps: u32, config: &Config) -> Option<Duration> {
    match transport {
        // If shared memory did not work at first, it never will.
        Transport::Shm if flaps == 0 => None,
        _ => {
            let longer = 1 << flaps.saturating_sub(1).min(16);
            let pause = config.retry_delay * longer;
            Some(pause.min(config.max_retry_pause.max(config.retry_delay)))
        }
    }
}
