//! The setup of a rail's lane: each step waits for one of the peer.
//!
//! | control message | the initiator | the listener |
//! |---|---|---|
//! | | [`Rail::start_lane`], by `Rails::try_due`; a task prepares its end | |
//! | `Open`, its offer → | sends it after [`Rail::prepared`] | [`Rail::open_for_peer`], [`Rail::start_lane`], [`Rail::set_offer`]; a task prepares its end |
//! | ← `Opened`, its offer | [`Rail::take_offer`], [`Rail::take_connectable`]; a task connects | sends it after [`Rail::prepared`], then [`Rail::take_connectable`]; a task connects |
//! | `Connected`, slots and probe region, both ways | once its task has a lane: [`Rail::set_lane`], sends it, [`Rail::use_early_keys`]; the peer's: [`Rail::peer_connected`] | the same |
//! | | with the later of both: [`Rail::start_probe`]; then [`Rail::probe_step_done`] twice | the same |
//! | `Verified`, both ways | sends it after its probe; the peer's: [`Rail::peer_verified`]; with the later of both: [`Rail::bring_up`] | the same |
//!
//! Messages are sent and received in `core/setup.rs` and `core/control.rs`, tasks run in `rails/connector.rs`. Each message has the
//! generation: one about an older lane is ignored. `Key` may arrive before our lane is there: [`Rail::take_key`] stores it. A
//! failed step, or five seconds in all, starts the fence (`ending.rs`); a task that has not ended by then keeps the rail busy.

use std::sync::Arc;
use std::time::Duration;

use super::ending::LaneEnding;
use super::{Rail, RailState};
use crate::link::protocol::control::RailPlan;
use crate::link::rails::RailLane;
use crate::link::rails::probe::ProbeStep;
use crate::op::Work;
use crate::remote::RemoteRegion;
use crate::setup::{Fabric, Side, UnconnectedLane};

/// The state of a lane's setup.
#[derive(Default)]
pub(super) struct LaneSetup {
    unconnected: Option<(Box<dyn UnconnectedLane>, Arc<dyn Fabric>)>,
    /// Messages of the peer that arrived before our end was ready for them.
    offer: Option<Vec<u8>>,
    connected: Option<([u16; 2], RemoteRegion)>,
    keys: Vec<(u64, Option<RemoteRegion>)>,
    /// Whether `connected` has arrived and was used.
    peer_connected: bool,
    /// Whether our end has verified the lane, and the peer's end.
    verified: [bool; 2],
    /// Whether the peer knows of this generation.
    announced: bool,
}

/// Why a step of the setup failed.
pub(in crate::link) enum SetupError {
    /// The peer violated the protocol.
    Protocol(&'static str),
    /// The lane cannot be used.
    Lane(String),
}

/// Our unconnected lane, its fabric and the peer's offer.
pub(in crate::link::rails) type Connectable = (Box<dyn UnconnectedLane>, Arc<dyn Fabric>, Vec<u8>);

impl LaneSetup {
    pub(super) fn is_announced(&self) -> bool {
        self.announced
    }

    /// The lane is given up.
    pub(super) fn drop_unconnected(&mut self) {
        self.unconnected = None;
    }
}

impl Rail {
    pub(in crate::link::rails) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts a lane; `false` if the previous attempt has not finished.
    pub(in crate::link::rails) fn start_lane(
        &mut self,
        generation: u32,
        side: Side,
        now: Duration,
    ) -> bool {
        self.generation = generation;
        self.state = RailState::Trying { since: now, until: now + SETUP_TIMEOUT };
        self.setup = LaneSetup { announced: side == Side::Accept, ..LaneSetup::default() };
        self.ending = LaneEnding::default();
        !std::mem::replace(&mut self.busy, true)
    }

    /// The peer opens it with this plan; `false` if it cannot be opened now.
    pub(in crate::link::rails) fn open_for_peer(
        &mut self,
        generation: u32,
        plan: RailPlan,
    ) -> bool {
        if !self.state.may_start() || generation <= self.generation {
            return false;
        }
        self.plan = plan;
        true
    }

    /// A connector task for this generation has finished; `false` if the lane was given up.
    pub(in crate::link::rails) fn end_work(&mut self, generation: u32) -> bool {
        self.busy = false;
        self.is_trying(generation)
    }

    /// Our unconnected lane is prepared; returns its offer for the peer.
    pub(in crate::link::rails) fn prepared(
        &mut self,
        unconnected: Box<dyn UnconnectedLane>,
        fabric: Arc<dyn Fabric>,
    ) -> Vec<u8> {
        let offer = unconnected.offer();
        self.setup.unconnected = Some((unconnected, fabric));
        self.setup.announced = true;
        offer
    }

    /// Stores the peer's offer.
    pub(in crate::link::rails) fn set_offer(&mut self, offer: Vec<u8>) {
        self.setup.offer = Some(offer);
    }

    /// Stores the peer's offer if our unconnected lane is prepared; `false` if it belongs to an older lane.
    pub(in crate::link) fn take_offer(&mut self, generation: u32, offer: Vec<u8>) -> bool {
        let expected = self.is_trying(generation) && self.setup.unconnected.is_some();
        if expected {
            self.set_offer(offer);
        }
        expected
    }

    /// Takes our unconnected lane and the peer's offer, if both are there, for a connector task.
    pub(in crate::link::rails) fn take_connectable(&mut self) -> Option<Connectable> {
        let offer = self.setup.offer.take()?;
        let (unconnected, fabric) = self.setup.unconnected.take()?;
        self.busy = true;
        Some((unconnected, fabric, offer))
    }

    /// The peer's end is connected: its slots and its probe region. `false` if that is an older lane.
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
    pub(in crate::link) fn start_probe(&mut self) -> Result<Option<Work>, SetupError> {
        let Some(lane) = &mut self.lane else { return Ok(None) };
        let Some((slots, probe)) = self.setup.connected.take() else { return Ok(None) };
        // Only once: otherwise a peer could reset its credits.
        if std::mem::replace(&mut self.setup.peer_connected, true) {
            return Err(SetupError::Protocol("the peer connected a rail twice"));
        }
        lane.start_probe(slots, &probe).map(Some).map_err(SetupError::Lane)
    }

    /// A step of the probe has completed.
    pub(in crate::link) fn probe_step_done(&mut self) -> Option<ProbeStep> {
        let step = self.lane.as_mut()?.next_probe_step()?;
        if let ProbeStep::Verified = step {
            self.setup.verified[0] = true;
        }
        Some(step)
    }

    /// The peer has verified the lane; `false` if that was an older lane.
    pub(in crate::link) fn peer_verified(&mut self, generation: u32) -> bool {
        let current = self.is_trying(generation);
        if current {
            self.setup.verified[1] = true;
        }
        current
    }

    /// Sets it to up, if both ends have verified its lane; `false` if not.
    pub(in crate::link::rails) fn bring_up(&mut self, now: Duration) -> bool {
        if self.setup.verified != [true; 2] || !matches!(self.state, RailState::Trying { .. }) {
            return false;
        }
        self.state = RailState::Up { since: now };
        self.why = self.plan.why.clone();
        true
    }

    /// Stores a region key of the peer; `true` if the lane has it now. Early keys are stored up to a limit.
    pub(in crate::link) fn take_key(
        &mut self,
        generation: u32,
        (region, key): (u64, Option<RemoteRegion>),
        max_keys: usize,
    ) -> bool {
        if self.generation != generation {
            return false;
        }
        match (self.state, &mut self.lane) {
            (RailState::Trying { .. }, None) if self.setup.keys.len() <= max_keys => {
                self.setup.keys.push((region, key));
                false
            }
            (RailState::Trying { .. } | RailState::Up { .. }, Some(lane)) => {
                lane.import(region, key);
                true
            }
            _ => false,
        }
    }

    /// Passes early keys to the lane.
    pub(in crate::link) fn use_early_keys(&mut self) {
        let keys = std::mem::take(&mut self.setup.keys);
        if let Some(lane) = &mut self.lane {
            keys.into_iter().for_each(|(region, key)| lane.import(region, key));
        }
    }

    /// Sets the displayed reason, when a region cannot be reached on this rail.
    pub(in crate::link) fn set_why(&mut self, why: String) {
        self.why = why;
    }

    pub(in crate::link::rails) fn set_lane(&mut self, lane: RailLane) {
        self.lane = Some(lane);
    }

    fn is_trying(&self, generation: u32) -> bool {
        matches!(self.state, RailState::Trying { .. }) && self.generation == generation
    }
}

/// The time limit of a setup.
pub(in crate::link::rails) const SETUP_TIMEOUT: Duration = Duration::from_secs(5);
