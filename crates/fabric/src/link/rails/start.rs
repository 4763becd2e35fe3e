//! Starting rails, and connector tasks for their lanes.

use std::sync::Arc;
use std::time::Duration;

use super::connector::{ConnectorTask, LaneOptions, NO_RAIL, Task, TaskOutput, TaskResult};
use super::rail::SETUP_TIMEOUT;
use super::{RailLane, RailState, Rails};
use crate::error::Error;
use crate::link::config::Config;
use crate::link::protocol::control::{RailPlan, Transport};
use crate::setup::{Fabric, Side, UnconnectedLane};

impl Rails {
    /// Starts rails that are due: all transports down to the best that is up, or likely to come up
    /// soon.
    pub(in crate::link) fn try_due(&mut self, now: Duration) {
        for transport in Transport::ALL {
            let (mut up, mut may_come_up) = (false, false);
            for rail in 0..self.rails.len() as u8 {
                let entry = self.get(rail);
                if entry.plan().transport != transport {
                    continue;
                }
                let is_due = match entry.state() {
                    RailState::Up { .. } => {
                        up = true;
                        false
                    }
                    RailState::Trying { since, .. } => {
                        may_come_up |= now < since + FALLBACK_DELAY;
                        false
                    }
                    RailState::NotTried => true,
                    RailState::Down { until } => until <= now,
                    RailState::Fencing { .. } | RailState::GivenUp => false,
                };
                if is_due && !entry.is_busy() {
                    let generation = entry.generation() + 1;
                    may_come_up |= self.start_lane(rail, generation, Side::Dial, now);
                }
            }
            if up || may_come_up {
                return;
            }
        }
    }

    /// The peer opens a rail; `None` if it cannot be opened now, otherwise as [`Rails::start_lane`].
    pub(in crate::link) fn open_for_peer(
        &mut self,
        rail: u8,
        generation: u32,
        plan: RailPlan,
        offer: Vec<u8>,
        now: Duration,
    ) -> Option<bool> {
        if !self.get_mut(rail).open_for_peer(generation, plan) {
            return None;
        }
        let started = self.start_lane(rail, generation, Side::Accept, now);
        self.get_mut(rail).set_offer(offer);
        Some(started)
    }

    /// Starts a lane. `false` if the previous attempt has not finished: otherwise there would be one thread for each, all
    /// waiting for the same device. The initiator checks that before.
    fn start_lane(&mut self, rail: u8, generation: u32, side: Side, now: Duration) -> bool {
        let entry = self.get_mut(rail);
        let free = entry.start_lane(generation, side, now);
        if free {
            let port_name = entry.plan().port_names[usize::from(side == Side::Accept)].clone();
            let task = Task::Prepare { transport: entry.plan().transport, port_name, side };
            self.run_task(rail, task);
        }
        free
    }

    /// The next result of the connector for a rail that still needs it.
    pub(in crate::link) fn finished(&mut self) -> Option<(u8, Result<TaskOutput, Error>)> {
        loop {
            let TaskResult { rail, generation, output } = self.connector.finished()?;
            let output = match output {
                Ok(TaskOutput::Plan(plan)) => {
                    self.planned(plan);
                    continue;
                }
                Err(_) if rail == NO_RAIL => {
                    self.planning_failed();
                    continue;
                }
                other => other,
            };
            if self.get_mut(rail).end_work(generation) {
                return Some((rail, output));
            }
            // The attempt was given up: the lane is discarded.
            if let Ok(TaskOutput::Lane(mut lane)) = output {
                lane.close();
                let task = Task::Discard(lane);
                self.connector.start(ConnectorTask { rail, generation, task });
            }
        }
    }

    /// Our end of a lane is prepared; returns its offer for the peer.
    pub(in crate::link) fn prepared(
        &mut self,
        rail: u8,
        unconnected: Box<dyn UnconnectedLane>,
        fabric: Arc<dyn Fabric>,
    ) -> Vec<u8> {
        self.get_mut(rail).prepared(unconnected, fabric)
    }

    /// Connects a lane, if both ends have prepared it.
    pub(in crate::link) fn connect(&mut self, rail: u8, config: &Config) {
        let options = LaneOptions {
            message_slots: config.message_slots,
            max_payload: config.max_payload,
            timeout: SETUP_TIMEOUT,
        };
        if let Some((unconnected, fabric, offer)) = self.get_mut(rail).take_connectable() {
            self.run_task(rail, Task::Connect { unconnected, fabric, offer, options });
        }
    }

    /// Drops a lane in a connector task, since that may wait for its device.
    pub(in crate::link) fn discard(&mut self, rail: u8, lane: RailLane) {
        self.run_task(rail, Task::Discard(Box::new(lane)));
    }

    /// Releases a device that was removed: it stays until no process has it open. The initiator does that when it starts
    /// the rail again.
    pub(in crate::link) fn release_broken(
        &mut self,
        rail: u8,
        now: Duration,
        retry_delay: Duration,
    ) {
        let is_initiator = self.is_initiator;
        let entry = self.get_mut(rail);
        if !is_initiator && entry.take_release_due(now, retry_delay) {
            let task = Task::Release {
                transport: entry.plan().transport,
                port_name: entry.plan().port_names[1].clone(),
            };
            self.run_task(rail, task);
        }
    }

    /// When the next timer of a rail expires.
    pub(in crate::link) fn next_due(&self, now: Duration, config: &Config) -> Option<Duration> {
        let states = self.rails.iter().filter_map(|rail| match rail.state() {
            RailState::Trying { since, .. } if now < since + FALLBACK_DELAY => {
                Some(since + FALLBACK_DELAY)
            }
            RailState::Trying { until, .. } => Some(until),
            RailState::Fencing { since } => Some(since + config.peer_timeout),
            RailState::Down { until } if self.is_initiator => Some(until),
            _ => None,
        });
        // Expired timers wait for something else.
        let states = states.filter(|due| *due > now);
        let lanes = self
            .with_lane
            .iter()
            .filter_map(|rail| self.lane(*rail)?.next_due(now, config.op_timeout));
        let no_rail_since = self.no_rail_since.map(|since| since + config.no_rail_timeout);
        states.chain(lanes).chain(no_rail_since).chain(self.plan_due(config)).min()
    }

    fn run_task(&mut self, rail: u8, task: Task) {
        let generation = self.get(rail).generation();
        self.connector.start(ConnectorTask { rail, generation, task });
    }
}

/// How long rails of a worse transport wait for better ones that are being set up.
const FALLBACK_DELAY: Duration = Duration::from_secs(1);
