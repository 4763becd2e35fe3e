//! A rail: one path to the peer, and the lane on it while there is one.
//!
//! Lanes of a rail follow each other, each under its generation: one is set up and proven (`Trying`), used (`Up`),
//! closed at both ends (`Fencing`), and only then, after a pause (`Standby`), is another tried.

mod ending;
mod setup;

use std::time::Duration;

use self::ending::LaneEnding;
use self::setup::LaneSetup;
use super::lane::RailLane;
use crate::link::protocol::control::Plan;

pub(in crate::link) use self::ending::Lost;
pub(super) use self::setup::SETUP;
pub(in crate::link) use self::setup::SetupError;

pub(in crate::link) struct Rail {
    plan: Plan,
    /// Counts the lanes that were made or tried on it.
    generation: u32,
    state: State,
    lane: Option<RailLane>,
    setup: LaneSetup,
    /// Whether a thread makes a lane for it: that one, or one that was given up because a device does not answer.
    busy: bool,
    ending: LaneEnding,
    /// What died with the last lane, until it is known what came of it.
    unconfirmed: Vec<Lost>,
    /// How often in a row it died soon after it came up.
    flaps: u32,
    /// When it was last seen to that nothing lost is held.
    tidied: Duration,
    /// Why it is as it is.
    why: String,
}

/// Where a rail stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum State {
    /// Left alone until then.
    Standby { until: Duration },
    /// A lane is being made and probed, since and until then.
    Trying { since: Duration, until: Duration },
    /// In use, or ready to be.
    Up { since: Duration },
    /// The lane is dead, since then: nothing of it is done again before both ends have closed it.
    Fencing { since: Duration },
}

impl Rail {
    pub(in crate::link::rails) fn new(plan: Plan) -> Self {
        let why = plan.why.clone();
        Rail {
            plan,
            generation: 0,
            state: State::Standby { until: Duration::ZERO },
            lane: None,
            setup: LaneSetup::default(),
            busy: false,
            ending: LaneEnding::default(),
            unconfirmed: Vec::new(),
            flaps: 0,
            tidied: Duration::ZERO,
            why,
        }
    }

    #[inline]
    pub(in crate::link) fn plan(&self) -> &Plan {
        &self.plan
    }

    #[inline]
    pub(in crate::link) fn generation(&self) -> u32 {
        self.generation
    }

    pub(in crate::link) fn state(&self) -> State {
        self.state
    }

    pub(in crate::link) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    pub(in crate::link) fn is_fencing(&self) -> bool {
        matches!(self.state, State::Fencing { .. })
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

    /// Its name for people: the two ports or transports, ours first.
    pub(in crate::link) fn name(&self, leads: bool) -> String {
        let [leader, follower] = &self.plan.paths;
        let (ours, theirs) = if leads { (leader, follower) } else { (follower, leader) };
        match ours == theirs {
            true => ours.clone(),
            false => format!("{ours}–{theirs}"),
        }
    }
}
