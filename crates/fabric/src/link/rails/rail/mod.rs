//! A rail: one path to the peer, and the lane on it while there is one.
//!
//! A rail has one lane after another, each with its generation: it is set up and probed (`Trying`), used (`Up`),
//! closed at both ends (`Fencing`), and after a pause (`Down`) the next is tried.

mod ending;
mod setup;

use std::time::Duration;

use self::ending::LaneEnding;
use self::setup::LaneSetup;
use super::lane::RailLane;
use crate::link::protocol::control::RailPlan;

pub(in crate::link) use self::ending::UnconfirmedOp;
pub(super) use self::setup::SETUP_TIMEOUT;
pub(in crate::link) use self::setup::SetupError;

pub(in crate::link) struct Rail {
    plan: RailPlan,
    /// The number of lanes that were tried on it.
    generation: u32,
    state: RailState,
    lane: Option<RailLane>,
    setup: LaneSetup,
    /// Whether a connector task is running: for the current lane, or for one that was given up because a device does not answer.
    busy: bool,
    ending: LaneEnding,
    /// Operations of the dead lane with an unknown outcome, until the fence is complete.
    unconfirmed: Vec<UnconfirmedOp>,
    /// How often in succession it died soon after it came up.
    flaps: u32,
    /// When a lost device was last released.
    last_release: Duration,
    /// The reason for its state.
    why: String,
    /// Whether an end does not allow it.
    denied: bool,
}

/// The state of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum RailState {
    /// It had no lane yet: a better transport is used, or its turn comes soon.
    NotTried,
    /// A lane is being set up and probed, until the deadline.
    Trying { since: Duration, until: Duration },
    /// Active, or ready to be.
    Up { since: Duration },
    /// The lane is dead: its operations are repeated only when both ends have closed it.
    Fencing { since: Duration },
    /// The lane is closed at both ends: the next is not tried before this time.
    Down { until: Duration },
    /// The lane is closed at both ends, and the initiator tries no other.
    GivenUp,
}

impl RailState {
    /// Its name in a link's status.
    pub(in crate::link) fn name(self) -> &'static str {
        match self {
            RailState::NotTried => "not_tried",
            RailState::Trying { .. } => "trying",
            RailState::Up { .. } => "up",
            RailState::Fencing { .. } => "fencing",
            RailState::Down { .. } => "down",
            RailState::GivenUp => "given_up",
        }
    }

    /// Whether a lane may be started: none is being set up, used or closed.
    pub(super) fn may_start(self) -> bool {
        matches!(self, RailState::NotTried | RailState::Down { .. } | RailState::GivenUp)
    }
}

impl Rail {
    pub(in crate::link::rails) fn new(plan: RailPlan) -> Self {
        let why = plan.why.clone();
        Rail {
            plan,
            generation: 0,
            state: RailState::NotTried,
            lane: None,
            setup: LaneSetup::default(),
            busy: false,
            ending: LaneEnding::default(),
            unconfirmed: Vec::new(),
            flaps: 0,
            last_release: Duration::ZERO,
            why,
            denied: false,
        }
    }

    #[inline]
    pub(in crate::link) fn plan(&self) -> &RailPlan {
        &self.plan
    }

    #[inline]
    pub(in crate::link) fn generation(&self) -> u32 {
        self.generation
    }

    pub(in crate::link) fn state(&self) -> RailState {
        self.state
    }

    pub(in crate::link) fn is_up(&self) -> bool {
        matches!(self.state, RailState::Up { .. })
    }

    pub(in crate::link) fn is_fencing(&self) -> bool {
        matches!(self.state, RailState::Fencing { .. })
    }

    pub(in crate::link) fn why(&self) -> &str {
        &self.why
    }

    #[inline]
    pub(in crate::link) fn lane(&self) -> Option<&RailLane> {
        self.lane.as_ref()
    }

    #[inline]
    pub(in crate::link) fn lane_mut(&mut self) -> Option<&mut RailLane> {
        self.lane.as_mut()
    }

    /// The displayed name: the two ports or transports, ours first.
    pub(in crate::link) fn name(&self, is_initiator: bool) -> String {
        let [initiator, listener] = &self.plan.port_names;
        let (ours, theirs) =
            if is_initiator { (initiator, listener) } else { (listener, initiator) };
        match ours == theirs {
            true => ours.clone(),
            false => format!("{ours}–{theirs}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::config::Config;
    use crate::link::protocol::control::Transport;
    use crate::setup::Side;

    /// The states of a rail whose first setup fails.
    fn states_without_success(transport: Transport) -> Vec<&'static str> {
        let (mut rail, now) =
            (Rail::new(RailPlan { transport, ..RailPlan::unknown() }), Duration::ZERO);
        let mut states = vec![rail.state().name()];
        assert!(rail.start_lane(1, Side::Dial, now));
        states.push(rail.state().name());
        rail.fail(now, "for the test", Duration::from_secs(1)).unwrap();
        states.push(rail.state().name());
        rail.end_fence(now, &Config::default());
        states.push(rail.state().name());
        states
    }

    #[test]
    fn a_rail_that_cannot_be_set_up_is_down_and_shared_memory_given_up() {
        let states = |last| vec!["not_tried", "trying", "fencing", last];
        assert_eq!(states_without_success(Transport::Verbs), states("down"));
        assert_eq!(states_without_success(Transport::Shm), states("given_up"));
    }
}
