//! How the lane of a rail is set up: each step waits for one of the peer's.

use std::sync::Arc;
use std::time::Duration;

use super::ending::LaneEnding;
use super::{Rail, State};
use crate::half::{Fabric, Half, Side};
use crate::link::protocol::control::Plan;
use crate::link::rails::RailLane;
use crate::link::rails::probe::ProbeStep;
use crate::op::Work;
use crate::remote::RemoteRegion;

/// A lane in the making.
#[derive(Default)]
pub(super) struct LaneSetup {
    half: Option<(Box<dyn Half>, Arc<dyn Fabric>)>,
    /// What the peer sent before our end was ready for it.
    offer: Option<Vec<u8>>,
    connected: Option<([u16; 2], RemoteRegion)>,
    keys: Vec<(u64, Option<RemoteRegion>)>,
    /// Whether the peer's end is connected, and ours has used that.
    peer_connected: bool,
    /// Whether each end has probed the other: ours, theirs.
    proven: [bool; 2],
    /// Whether the peer knows of this generation.
    announced: bool,
}

/// Why a step of the setup failed.
pub(in crate::link) enum SetupError {
    /// The peer broke the protocol.
    Protocol(&'static str),
    /// This lane is of no use.
    Lane(String),
}

/// What a setup needs to connect its half.
pub(in crate::link::rails) type Connectable = (Box<dyn Half>, Arc<dyn Fabric>, Vec<u8>);

impl LaneSetup {
    pub(super) fn is_announced(&self) -> bool {
        self.announced
    }

    /// The lane is given up.
    pub(super) fn drop_half(&mut self) {
        self.half = None;
    }
}

impl Rail {
    pub(in crate::link::rails) fn is_busy(&self) -> bool {
        self.busy
    }

    /// A lane is tried from now on; `false` if the last attempt is not over yet.
    pub(in crate::link::rails) fn begin(
        &mut self,
        generation: u32,
        side: Side,
        now: Duration,
    ) -> bool {
        self.generation = generation;
        self.state = State::Trying { since: now, until: now + SETUP };
        self.setup = LaneSetup { announced: side == Side::Accept, ..LaneSetup::default() };
        self.ending = LaneEnding::default();
        !std::mem::replace(&mut self.busy, true)
    }

    /// The peer opens it: from now on it is what the peer planned. `false` if it cannot be opened now.
    pub(in crate::link::rails) fn follow(&mut self, generation: u32, plan: Plan) -> bool {
        let standby = matches!(self.state, State::Standby { .. });
        if !standby || generation <= self.generation {
            return false;
        }
        self.plan = plan;
        true
    }

    /// A thread has ended its work for a lane of this generation; `false` if that was given up meanwhile.
    pub(in crate::link::rails) fn end_work(&mut self, generation: u32) -> bool {
        self.busy = false;
        self.is_trying(generation)
    }

    /// Our half is prepared: what it offers to the peer.
    pub(in crate::link::rails) fn prepared(
        &mut self,
        half: Box<dyn Half>,
        fabric: Arc<dyn Fabric>,
    ) -> Vec<u8> {
        let offer = half.offer();
        self.setup.half = Some((half, fabric));
        self.setup.announced = true;
        offer
    }

    /// The peer's offer for the lane that is being made.
    pub(in crate::link::rails) fn set_offer(&mut self, offer: Vec<u8>) {
        self.setup.offer = Some(offer);
    }

    /// The peer's offer for a half that we have prepared; `false` if it is of an older lane.
    pub(in crate::link) fn take_offer(&mut self, generation: u32, offer: Vec<u8>) -> bool {
        let expected = self.is_trying(generation) && self.setup.half.is_some();
        if expected {
            self.set_offer(offer);
        }
        expected
    }

    /// Both halves, if both are there: a thread connects them.
    pub(in crate::link::rails) fn take_halves(&mut self) -> Option<Connectable> {
        let offer = self.setup.offer.take()?;
        let (half, fabric) = self.setup.half.take()?;
        self.busy = true;
        Some((half, fabric, offer))
    }

    /// The peer's end is connected: its slots, and memory to probe. `false` if that is of an older lane.
    pub(in crate::link) fn peer_connected(
        &mut self,
        generation: u32,
        slots: [u16; 2],
        probe: RemoteRegion,
    ) -> bool {
        let current = self.is_trying(generation);
        if current {
            self.setup.connected = Some((slots, probe));
        }
        current
    }

    /// Whether the peer has slots for messages on the lane.
    #[inline]
    pub(in crate::link) fn is_peer_connected(&self) -> bool {
        self.setup.peer_connected
    }

    /// The first step of the probe, once both ends are connected.
    pub(in crate::link) fn begin_probe(&mut self) -> Result<Option<Work>, SetupError> {
        let Some(lane) = &mut self.lane else { return Ok(None) };
        let Some((slots, probe)) = self.setup.connected.take() else { return Ok(None) };
        // Once: else a peer could make us forget what it owes.
        if std::mem::replace(&mut self.setup.peer_connected, true) {
            return Err(SetupError::Protocol("the peer connects a rail twice"));
        }
        lane.begin_probe(slots, &probe).map(Some).map_err(SetupError::Lane)
    }

    /// A step of the probe is over.
    pub(in crate::link) fn probed(&mut self) -> Option<ProbeStep> {
        let step = self.lane.as_mut()?.next_of_probe()?;
        if let ProbeStep::Proven = step {
            self.setup.proven[0] = true;
        }
        Some(step)
    }

    /// The peer has probed us; `false` if that was an older lane.
    pub(in crate::link) fn peer_proven(&mut self, generation: u32) -> bool {
        let current = self.is_trying(generation);
        if current {
            self.setup.proven[1] = true;
        }
        current
    }

    /// It is up from now on, if both ends have proven its lane; `false` if not.
    pub(in crate::link::rails) fn come_up(&mut self, now: Duration) -> bool {
        if self.setup.proven != [true; 2] || !matches!(self.state, State::Trying { .. }) {
            return false;
        }
        self.state = State::Up { since: now };
        self.why = self.plan.why.clone();
        true
    }

    /// The peer's key of a region: `true` if the lane has it now. One that is early is kept, if there are not too many.
    pub(in crate::link) fn take_key(
        &mut self,
        generation: u32,
        (region, key): (u64, Option<RemoteRegion>),
        most: usize,
    ) -> bool {
        if self.generation != generation {
            return false;
        }
        match (self.state, &mut self.lane) {
            (State::Trying { .. }, None) if self.setup.keys.len() <= most => {
                self.setup.keys.push((region, key));
                false
            }
            (State::Trying { .. } | State::Up { .. }, Some(lane)) => {
                lane.import(region, key);
                true
            }
            _ => false,
        }
    }

    /// Gives the lane the keys that came before it.
    pub(in crate::link) fn use_early_keys(&mut self) {
        let keys = std::mem::take(&mut self.setup.keys);
        if let Some(lane) = &mut self.lane {
            keys.into_iter().for_each(|(region, key)| lane.import(region, key));
        }
    }

    /// A region that it cannot reach is reached by another, or refused: the reason is for people.
    pub(in crate::link) fn set_why(&mut self, why: String) {
        self.why = why;
    }

    pub(in crate::link::rails) fn set_lane(&mut self, lane: RailLane) {
        self.lane = Some(lane);
    }

    fn is_trying(&self, generation: u32) -> bool {
        matches!(self.state, State::Trying { .. }) && self.generation == generation
    }
}

/// How long a rail may take from the first step to the last.
pub(in crate::link::rails) const SETUP: Duration = Duration::from_secs(5);
