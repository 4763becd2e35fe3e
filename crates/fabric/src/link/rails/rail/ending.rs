//! How the lane of a rail ends: our end, the peer's, and what is known once both are closed.

use std::time::Duration;

use super::{Rail, State};
use crate::link::config::Config;
use crate::link::event::Happening;
use crate::link::operations::Part;
use crate::link::protocol::control::{Class, Control};
use crate::link::rails::RailLane;
use crate::op::{Failure, Work};

/// The end of a lane.
#[derive(Default)]
pub(super) struct LaneEnding {
    /// Whether we have reported to the peer that our end is closed.
    reported: bool,
    /// How many messages had come when the peer closed its end.
    peer_received: Option<u64>,
    /// How many messages came to us.
    received: u64,
    /// Whether the lane kept order, and how many of our messages had surely arrived.
    ordered: bool,
    arrived: u64,
}

/// An operation of a dead lane.
pub(in crate::link) struct Lost {
    pub(in crate::link) part: Part,
    pub(in crate::link) failure: Failure,
    pub(in crate::link) work: Work,
}

impl Rail {
    /// Its lane is dead, or could not be made: what that is, unless it is known already.
    pub(in crate::link::rails) fn fail(
        &mut self,
        now: Duration,
        why: &str,
        settle: Duration,
    ) -> Option<Happening> {
        let what = match self.state {
            State::Up { since } => {
                let lived = now.saturating_sub(since);
                self.flaps = if lived < 10 * settle { self.flaps + 1 } else { 1 };
                Happening::RailDown
            }
            State::Trying { .. } => Happening::RailRefused,
            State::Standby { .. } | State::Fencing { .. } => return None,
        };
        self.begin_fence(now);
        self.why = why.to_owned();
        Some(what)
    }

    pub(in crate::link::rails) fn begin_fence(&mut self, now: Duration) {
        self.state = State::Fencing { since: now };
        self.setup.drop_half();
    }

    /// Closes its lane; `false` if there is none, or it is closed already.
    pub(in crate::link::rails) fn close_lane(&mut self) -> bool {
        let open = self.lane.as_mut().filter(|lane| !lane.is_closed());
        open.map(RailLane::close).is_some()
    }

    /// Takes out a lane that was closed and has nothing of ours any more.
    pub(in crate::link::rails) fn take_drained(&mut self) -> Option<RailLane> {
        let lane = self.lane.take_if(|lane| lane.is_drained())?;
        let counts = lane.counts();
        self.ending.received = counts.received;
        self.ending.arrived = counts.arrived;
        self.ending.ordered = lane.is_ordered();
        Some(lane)
    }

    /// What died with the lane.
    pub(in crate::link) fn lose(&mut self, lost: Lost) {
        self.unconfirmed.push(lost);
    }

    /// The peer has closed its end, after so many messages; `false` if that was an older lane.
    pub(in crate::link) fn peer_fenced(&mut self, generation: u32, received: u64) -> bool {
        if self.generation != generation || matches!(self.state, State::Standby { .. }) {
            return false;
        }
        self.ending.peer_received = Some(received);
        true
    }

    /// What the peer must know when our end is closed; once, and only of a lane that it knows.
    pub(in crate::link) fn report_fenced(&mut self, rail: u8) -> Option<Control> {
        let reported = std::mem::replace(&mut self.ending.reported, true);
        let (generation, received) = (self.generation, self.ending.received);
        (!reported && self.setup.is_announced()).then(|| {
            let why = self.why.clone();
            Control::Fenced { rail, generation, received, why }
        })
    }

    /// How many messages the peer has received, once its end is closed. One that it does not know of has no other end.
    pub(in crate::link) fn received_by_peer(&self) -> Option<u64> {
        self.ending.peer_received.or((!self.setup.is_announced()).then_some(0))
    }

    /// How many messages surely arrived on the lane that ended.
    pub(in crate::link) fn surely_arrived(&self) -> u64 {
        self.ending.arrived
    }

    /// Both ends are closed: a pause follows.
    pub(in crate::link) fn end_fence(&mut self, now: Duration, config: &Config) {
        let until = now.saturating_add(pause(self.plan.class, self.flaps, config));
        self.state = State::Standby { until };
    }

    /// What died with the lane, and whether that kept order.
    pub(in crate::link) fn take_unconfirmed(&mut self) -> (Vec<Lost>, bool) {
        (std::mem::take(&mut self.unconfirmed), self.ending.ordered)
    }

    /// Whether it is time to let go of a device that was lost, which then counts as done.
    pub(in crate::link::rails) fn take_tidy(&mut self, now: Duration, settle: Duration) -> bool {
        let due =
            self.plan.class == Class::Verbs && self.generation > 0 && now >= self.tidied + settle;
        if due {
            self.tidied = now;
        }
        due
    }
}

/// How long a rail is left alone.
fn pause(class: Class, flaps: u32, config: &Config) -> Duration {
    match class {
        // Shared memory is not there another time if it was not at first.
        Class::Shm if flaps == 0 => Duration::from_secs(u64::from(u32::MAX)),
        _ => {
            let longer = 1 << flaps.saturating_sub(1).min(16);
            (config.settle * longer).min(config.longest_pause.max(config.settle))
        }
    }
}
