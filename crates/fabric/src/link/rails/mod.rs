//! The rails of a link: which have a lane, which are active, and which one an operation takes.
//!
//! `with_lane` are the rails with a lane, also a dead one; `healthy` is the number of those whose lane is not closed; `active` are the
//! rails that are up and of the best transport that is up. All three change only in this file: when a lane is
//! set, closed or taken out, and when a rail comes up or fails.

mod choose;
pub(super) mod connector;
mod keys;
mod lane;
mod planning;
mod probe;
mod rail;
mod start;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use self::connector::Connector;
use self::planning::Planning;
use super::event::EventKind;
use super::protocol::control::RailPlan;
use crate::op::Op;

pub(super) use self::choose::RailChoice;
pub(super) use self::keys::{RegionKey, region_index};
pub(super) use self::lane::{RECEIVE_BIT, RailLane, ReceiveOutcome};
pub(super) use self::probe::{PROBE_BYTES, ProbeStep};
pub(super) use self::rail::{Rail, RailState, SetupError, UnconfirmedOp};

pub(super) struct Rails {
    rails: Vec<Rail>,
    with_lane: Vec<u8>,
    active: Vec<u8>,
    healthy: usize,
    /// The position in `active` to start the next choice at (round robin).
    next_choice: usize,
    /// Since when no rail is active.
    no_rail_since: Option<Duration>,
    /// Whether this end plans the rails and starts them.
    is_initiator: bool,
    connector: Box<dyn Connector>,
    /// A reused buffer for receives to be posted.
    receives: VecDeque<Op>,
    planning: Planning,
}

/// A rail came up, or failed.
pub(super) struct RailChange {
    pub(super) what: EventKind,
    pub(super) name: String,
    /// The names of the active rails, if they have changed.
    pub(super) in_use: Option<String>,
}

impl Rails {
    pub(super) fn new(
        plans: Vec<RailPlan>,
        connector: Box<dyn Connector>,
        is_initiator: bool,
        can_plan_again: bool,
        plan_spread: Duration,
        now: Duration,
    ) -> Self {
        Rails {
            rails: plans.into_iter().map(Rail::new).collect(),
            with_lane: Vec::new(),
            active: Vec::new(),
            healthy: 0,
            next_choice: 0,
            no_rail_since: Some(now),
            is_initiator,
            connector,
            receives: VecDeque::new(),
            planning: Planning::new(can_plan_again, plan_spread, now),
        }
    }

    pub(super) fn is_initiator(&self) -> bool {
        self.is_initiator
    }

    pub(super) fn count(&self) -> usize {
        self.rails.len()
    }

    /// All rails, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Rail> {
        self.rails.iter()
    }

    /// A rail by its number.
    #[inline]
    pub(super) fn get(&self, rail: u8) -> &Rail {
        &self.rails[usize::from(rail)]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, rail: u8) -> &mut Rail {
        &mut self.rails[usize::from(rail)]
    }

    /// A rail by a number from the peer: it may not exist.
    pub(super) fn find_mut(&mut self, rail: u8) -> Option<&mut Rail> {
        self.rails.get_mut(usize::from(rail))
    }

    /// Adds the rail with a number from the peer, and all before it: they need not be opened in order. `false`: the
    /// number is too large.
    pub(super) fn add(&mut self, rail: u8) -> bool {
        if usize::from(rail) >= MAX_RAILS {
            return false;
        }
        while self.rails.len() <= usize::from(rail) {
            self.rails.push(Rail::new(RailPlan::unknown()));
        }
        true
    }

    pub(super) fn name(&self, rail: u8) -> String {
        self.get(rail).name(self.is_initiator)
    }

    #[inline]
    pub(super) fn lane(&self, rail: u8) -> Option<&RailLane> {
        self.rails[usize::from(rail)].lane()
    }

    #[inline]
    pub(super) fn lane_mut(&mut self, rail: u8) -> Option<&mut RailLane> {
        self.rails[usize::from(rail)].lane_mut()
    }

    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut RailLane> {
        self.rails.iter_mut().filter_map(Rail::lane_mut)
    }

    /// The rail at this position in `with_lane`.
    #[inline]
    pub(super) fn rail_with_lane(&self, index: usize) -> u8 {
        self.with_lane[index]
    }

    #[inline]
    pub(super) fn lane_count(&self) -> usize {
        self.with_lane.len()
    }

    /// Whether a lane is closing.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.with_lane.len() != self.healthy
    }

    #[inline]
    pub(super) fn active(&self) -> &[u8] {
        &self.active
    }

    /// Since when no rail is active.
    pub(super) fn no_rail_since(&self) -> Option<Duration> {
        self.no_rail_since
    }

    // All lanes.

    /// Posts the queued operations of all lanes.
    #[inline]
    pub(super) fn post_queues(&mut self) {
        for rail in &self.with_lane {
            if let Some(lane) = self.rails[usize::from(*rail)].lane_mut() {
                lane.post_queue();
            }
        }
    }

    /// Posts the free slots of a lane that can receive; `Ok(false)` if there is none, `Err` if the lane fails.
    #[inline]
    pub(super) fn refill(&mut self, rail: u8) -> Result<bool, &'static str> {
        let lane = self.rails[usize::from(rail)].lane_mut().filter(|lane| lane.can_receive());
        let Some(lane) = lane else { return Ok(false) };
        lane.refill(&mut self.receives).map(|()| true)
    }

    /// Arms all lanes; `false` if one of them has work to do.
    pub(super) fn arm(&mut self) -> bool {
        let Rails { with_lane, rails, .. } = self;
        with_lane.iter().all(|rail| rails[usize::from(*rail)].lane_mut().is_none_or(RailLane::arm))
    }

    /// The descriptors of all lanes, with rail and generation.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (u8, u32, BorrowedFd<'_>)> {
        self.with_lane.iter().filter_map(|rail| {
            let entry = self.get(*rail);
            Some((*rail, entry.generation(), entry.lane()?.fd()))
        })
    }

    /// Readable when a connector task has finished.
    pub(super) fn connector_fd(&self) -> Option<BorrowedFd<'_>> {
        self.connector.fd()
    }

    // Changes.

    /// Gives a rail its lane.
    pub(super) fn set_lane(&mut self, rail: u8, lane: RailLane) {
        self.get_mut(rail).set_lane(lane);
        self.with_lane.push(rail);
        self.healthy += 1;
    }

    /// Activates a rail, once both ends have verified its lane.
    pub(super) fn bring_up(&mut self, rail: u8, now: Duration) -> Option<RailChange> {
        let up = self.get_mut(rail).bring_up(now);
        up.then(|| self.changed(rail, EventKind::RailUp, now))
    }

    /// A lane is dead, or could not be set up; `None` if that is known already.
    pub(super) fn fail(
        &mut self,
        rail: u8,
        now: Duration,
        why: &str,
        retry_delay: Duration,
    ) -> Option<RailChange> {
        let entry = &mut self.rails[usize::from(rail)];
        let what = entry.fail(now, why, retry_delay)?;
        self.healthy -= usize::from(entry.close_lane());
        Some(self.changed(rail, what, now))
    }

    fn changed(&mut self, rail: u8, what: EventKind, now: Duration) -> RailChange {
        let in_use = self.switch(now);
        RailChange { what, name: self.name(rail), in_use }
    }

    /// Activates the rails of the best transport that is up; returns their names if they have changed.
    fn switch(&mut self, now: Duration) -> Option<String> {
        let up = |rail: &&Rail| rail.is_up();
        let best = self.rails.iter().filter(up).map(|rail| rail.plan().transport).min();
        let is_active = |rail: &Rail| rail.is_up() && Some(rail.plan().transport) == best;
        let rails = self.rails.iter().enumerate();
        let active: Vec<u8> =
            rails.filter(|(_, rail)| is_active(rail)).map(|(rail, _)| rail as u8).collect();
        self.no_rail_since =
            if active.is_empty() { self.no_rail_since.or(Some(now)) } else { None };
        if active == self.active {
            return None;
        }
        self.active = active;
        let name = |rail: &u8| {
            let (transport, name) = (self.get(*rail).plan().transport.name(), self.name(*rail));
            if transport == name { name } else { format!("{transport} {name}") }
        };
        let names: Vec<String> = self.active.iter().map(name).collect();
        Some(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }

    /// Takes out the lane of a rail, if it is closed and has returned all operations. [`Rails::discard`] must follow.
    pub(super) fn detach(&mut self, rail: u8) -> Option<RailLane> {
        let lane = self.get_mut(rail).take_ended()?;
        self.with_lane.retain(|other| *other != rail);
        Some(lane)
    }

    /// Closes all lanes, when the link ends.
    pub(super) fn close(&mut self, now: Duration) {
        for rail in &mut self.rails {
            self.healthy -= usize::from(rail.close_lane());
            rail.start_fence(now);
        }
        self.active.clear();
    }

    /// The unconfirmed operations of all rails.
    pub(super) fn take_all_unconfirmed(&mut self) -> Vec<UnconfirmedOp> {
        self.rails.iter_mut().flat_map(|rail| rail.take_unconfirmed().0).collect()
    }

    /// Whether this end has tried all rails, and none is tried again.
    pub(super) fn are_given_up(&self) -> bool {
        self.is_initiator && self.rails.iter().all(Rail::is_given_up)
    }

    /// Whether none is allowed, so that another link would have none either.
    pub(super) fn are_denied(&self) -> bool {
        self.rails.iter().all(Rail::is_denied)
    }

    /// Why no rail is up.
    pub(super) fn rail_problems(&self, now: Duration) -> String {
        let each = self.rails.iter().map(|rail| match rail.state() {
            RailState::Trying { since, .. } => {
                let so_far = now.saturating_sub(since);
                format!("{}: being set up for {so_far:.1?}", rail.name(self.is_initiator))
            }
            _ => format!("{}: {}", rail.name(self.is_initiator), rail.why()),
        });
        let each = each.collect::<Vec<_>>().join("; ");
        if each.is_empty() { "the peer has not opened a rail yet".to_owned() } else { each }
    }
}

/// The maximum number of rails that a peer can open: more than any machine has ports.
const MAX_RAILS: usize = 32;
