//! The rails of a link: which have a lane, which of them are used, and which one an operation takes.
//!
//! `live` are the rails with a lane; `healthy` counts those of them whose lane is not closed; `active`, a part of the
//! live ones, are those that are up and of the best class that is. All three change in this file alone, with what they
//! are about: a lane is attached, closed or detached, or a rail comes up or fails.

mod choose;
pub(super) mod connector;
mod keys;
mod lane;
mod probe;
mod rail;
mod start;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use self::connector::Connector;
use super::event::Happening;
use super::protocol::control::Plan;
use crate::op::Op;

pub(super) use self::choose::Choice;
pub(super) use self::keys::{Key, index};
pub(super) use self::lane::{RECEIVE, RailLane, Received};
pub(super) use self::probe::{PROBE, ProbeStep};
pub(super) use self::rail::{Lost, Rail, SetupError, State};

pub(super) struct Rails {
    rails: Vec<Rail>,
    live: Vec<u8>,
    active: Vec<u8>,
    healthy: usize,
    /// Which of the active ones had the last turn.
    turn: usize,
    /// Since when none is active.
    stranded: Option<Duration>,
    /// Whether this end decides which rails there are, and begins them.
    leads: bool,
    connector: Box<dyn Connector>,
    /// Room for receives on their way to a lane.
    receives: VecDeque<Op>,
}

/// A rail came up, or failed.
pub(super) struct RailChange {
    pub(super) what: Happening,
    pub(super) rail: String,
    /// The names of those in use from now on, if they are others.
    pub(super) in_use: Option<String>,
}

impl Rails {
    pub(super) fn new(
        plans: Vec<Plan>,
        connector: Box<dyn Connector>,
        leads: bool,
        now: Duration,
    ) -> Self {
        Rails {
            rails: plans.into_iter().map(Rail::new).collect(),
            live: Vec::new(),
            active: Vec::new(),
            healthy: 0,
            turn: 0,
            stranded: Some(now),
            leads,
            connector,
            receives: VecDeque::new(),
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    pub(super) fn count(&self) -> usize {
        self.rails.len()
    }

    /// All of them, by their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Rail> {
        self.rails.iter()
    }

    #[inline]
    pub(super) fn get(&self, at: u8) -> &Rail {
        &self.rails[usize::from(at)]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u8) -> &mut Rail {
        &mut self.rails[usize::from(at)]
    }

    /// One that the peer names: it may not be there.
    pub(super) fn named(&mut self, at: u8) -> Option<&mut Rail> {
        self.rails.get_mut(usize::from(at))
    }

    /// One that the peer names, which is added with those before it. They need not be opened in order. `false`: there
    /// may not be so many.
    pub(super) fn add(&mut self, at: u8) -> bool {
        if usize::from(at) >= MAX_RAILS {
            return false;
        }
        while self.rails.len() <= usize::from(at) {
            self.rails.push(Rail::new(Plan::unknown()));
        }
        true
    }

    pub(super) fn name(&self, at: u8) -> String {
        self.get(at).name(self.leads)
    }

    #[inline]
    pub(super) fn lane(&self, at: u8) -> Option<&RailLane> {
        self.rails[usize::from(at)].lane()
    }

    #[inline]
    pub(super) fn lane_mut(&mut self, at: u8) -> Option<&mut RailLane> {
        self.rails[usize::from(at)].lane_mut()
    }

    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut RailLane> {
        self.rails.iter_mut().filter_map(Rail::lane_mut)
    }

    /// The rail with a lane at this place among them.
    #[inline]
    pub(super) fn live(&self, place: usize) -> u8 {
        self.live[place]
    }

    #[inline]
    pub(super) fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Whether a lane is ending.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.live.len() != self.healthy
    }

    #[inline]
    pub(super) fn active(&self) -> &[u8] {
        &self.active
    }

    /// Since when no rail is in use.
    pub(super) fn stranded(&self) -> Option<Duration> {
        self.stranded
    }

    // What all lanes do.

    /// Hands to the lanes what they were given.
    #[inline]
    pub(super) fn ring(&mut self) {
        for at in &self.live {
            if let Some(lane) = self.rails[usize::from(*at)].lane_mut() {
                lane.ring();
            }
        }
    }

    /// Posts the free slots of an open lane; `Ok(false)` if there is none, `Err` if it cannot go on.
    #[inline]
    pub(super) fn refill(&mut self, at: u8) -> Result<bool, &'static str> {
        let lane = self.rails[usize::from(at)].lane_mut().filter(|lane| !lane.is_closed());
        let Some(lane) = lane else { return Ok(false) };
        lane.refill(&mut self.receives).map(|()| true)
    }

    /// Prepares all lanes for sleep; `false` if one of them has something to do.
    pub(super) fn arm(&mut self) -> bool {
        let Rails { live, rails, .. } = self;
        live.iter().all(|at| rails[usize::from(*at)].lane_mut().is_none_or(RailLane::arm))
    }

    /// The descriptors of the lanes, each with its rail and its generation.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (u8, u32, BorrowedFd<'_>)> {
        self.live.iter().filter_map(|at| {
            let rail = self.get(*at);
            Some((*at, rail.generation(), rail.lane()?.fd()))
        })
    }

    /// Readable when a connector's work is finished.
    pub(super) fn connector_fd(&self) -> Option<BorrowedFd<'_>> {
        self.connector.fd()
    }

    // Lanes come and go.

    /// A rail has a lane.
    pub(super) fn attach(&mut self, at: u8, lane: RailLane) {
        self.get_mut(at).set_lane(lane);
        self.live.push(at);
        self.healthy += 1;
    }

    /// A rail is used, once both ends have proven its lane.
    pub(super) fn come_up(&mut self, at: u8, now: Duration) -> Option<RailChange> {
        let up = self.get_mut(at).come_up(now);
        up.then(|| self.changed(at, Happening::RailUp, now))
    }

    /// A lane is dead, or could not be made; `None` if that is known already.
    pub(super) fn fail(
        &mut self,
        at: u8,
        now: Duration,
        why: &str,
        settle: Duration,
    ) -> Option<RailChange> {
        let rail = &mut self.rails[usize::from(at)];
        let what = rail.fail(now, why, settle)?;
        self.healthy -= usize::from(rail.close_lane());
        Some(self.changed(at, what, now))
    }

    fn changed(&mut self, at: u8, what: Happening, now: Duration) -> RailChange {
        let in_use = self.switch(now);
        RailChange { what, rail: self.name(at), in_use }
    }

    /// The best class of rails that are up is used from now on; the names of those in use, if that is a change.
    fn switch(&mut self, now: Duration) -> Option<String> {
        let up = |rail: &&Rail| rail.is_up();
        let best = self.rails.iter().filter(up).map(|rail| rail.plan().class).min();
        let is_active = |rail: &Rail| rail.is_up() && Some(rail.plan().class) == best;
        let rails = self.rails.iter().enumerate();
        let active: Vec<u8> =
            rails.filter(|(_, rail)| is_active(rail)).map(|(at, _)| at as u8).collect();
        self.stranded = if active.is_empty() { self.stranded.or(Some(now)) } else { None };
        if active == self.active {
            return None;
        }
        self.active = active;
        let name = |at: &u8| {
            let (class, name) = (self.get(*at).plan().class.name(), self.name(*at));
            if class == name { name } else { format!("{class} {name}") }
        };
        let names: Vec<String> = self.active.iter().map(name).collect();
        Some(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
    }

    /// Takes out the lane of a rail, when it was closed and has nothing of ours any more. [`Rails::discard`] must follow.
    pub(super) fn detach(&mut self, at: u8) -> Option<RailLane> {
        let lane = self.get_mut(at).take_drained()?;
        self.live.retain(|live| *live != at);
        Some(lane)
    }

    /// The link is over: no lane is used any more, and all are closed.
    pub(super) fn close(&mut self, now: Duration) {
        for rail in &mut self.rails {
            self.healthy -= usize::from(rail.close_lane());
            rail.begin_fence(now);
        }
        self.active.clear();
    }

    /// What died with the lanes of all rails.
    pub(super) fn take_all_unconfirmed(&mut self) -> Vec<Lost> {
        self.rails.iter_mut().flat_map(|rail| rail.take_unconfirmed().0).collect()
    }

    /// Why no rail is up.
    pub(super) fn obstacles(&self, now: Duration) -> String {
        let each = self.rails.iter().map(|rail| match rail.state() {
            State::Trying { since, .. } => {
                let so_far = now.saturating_sub(since);
                format!("{}: being set up for {so_far:.1?}", rail.name(self.leads))
            }
            _ => format!("{}: {}", rail.name(self.leads), rail.why()),
        });
        let each = each.collect::<Vec<_>>().join("; ");
        if each.is_empty() { "the peer has not opened a rail yet".to_owned() } else { each }
    }
}

/// More rails than any machine has ports; a peer cannot make us keep more.
const MAX_RAILS: usize = 32;
