//! When rails are tried, and the work on their lanes that is done elsewhere, since polling never blocks.

use std::sync::Arc;
use std::time::Duration;

use super::connector::{ConnectorTask, Finished, Make, Product, Task};
use super::rail::SETUP;
use super::{RailLane, Rails, State};
use crate::error::Error;
use crate::half::{Fabric, Half, Side};
use crate::link::config::Config;
use crate::link::protocol::control::{Class, Plan};

impl Rails {
    /// Begins what is due: all rails that are as good as the best that is up, and worse ones where nothing else is at
    /// hand.
    pub(in crate::link) fn try_due(&mut self, now: Duration) {
        for class in Class::ALL {
            let (mut up, mut hopeful) = (false, false);
            for at in 0..self.rails.len() as u8 {
                let rail = self.get(at);
                if rail.plan().class != class {
                    continue;
                }
                match rail.state() {
                    State::Up { .. } => up = true,
                    State::Trying { since, .. } => hopeful |= now < since + HEDGE,
                    State::Standby { until } if until <= now && !rail.is_busy() => {
                        let generation = rail.generation() + 1;
                        hopeful |= self.begin(at, generation, Side::Dial, now);
                    }
                    State::Standby { .. } | State::Fencing { .. } => {}
                }
            }
            if up || hopeful {
                return;
            }
        }
    }

    /// The peer opens a rail; `None` if it cannot be opened now, else as [`Rails::begin`].
    pub(in crate::link) fn follow(
        &mut self,
        at: u8,
        generation: u32,
        plan: Plan,
        offer: Vec<u8>,
        now: Duration,
    ) -> Option<bool> {
        if !self.get_mut(at).follow(generation, plan) {
            return None;
        }
        let begun = self.begin(at, generation, Side::Accept, now);
        self.get_mut(at).set_offer(offer);
        Some(begun)
    }

    /// Tries a lane. `false` if the last attempt is not over yet: else there would be a thread for each, all waiting for
    /// one device. The leading end does not even try.
    fn begin(&mut self, at: u8, generation: u32, side: Side, now: Duration) -> bool {
        let rail = self.get_mut(at);
        let free = rail.begin(generation, side, now);
        if free {
            let path = rail.plan().paths[usize::from(side == Side::Accept)].clone();
            let task = Task::Prepare { class: rail.plan().class, path, side };
            self.start(at, task);
        }
        free
    }

    /// What a thread has made for a rail that still wants it.
    pub(in crate::link) fn finished(&mut self) -> Option<(u8, Result<Product, Error>)> {
        loop {
            let Finished { rail: at, generation, product } = self.connector.finished()?;
            if self.get_mut(at).end_work(generation) {
                return Some((at, product));
            }
            // Given up meanwhile: what was made goes.
            if let Ok(Product::Lane(mut lane)) = product {
                lane.close();
                let task = Task::Discard(lane);
                self.connector.start(ConnectorTask { rail: at, generation, task });
            }
        }
    }

    /// Our half of a lane is prepared: what it offers to the peer.
    pub(in crate::link) fn prepared(
        &mut self,
        at: u8,
        half: Box<dyn Half>,
        fabric: Arc<dyn Fabric>,
    ) -> Vec<u8> {
        self.get_mut(at).prepared(half, fabric)
    }

    /// Connects the two halves of a lane, if both are there.
    pub(in crate::link) fn connect(&mut self, at: u8, config: &Config) {
        let make = Make { messages: config.messages, room: config.room, limit: SETUP };
        if let Some((half, fabric, offer)) = self.get_mut(at).take_halves() {
            self.start(at, Task::Connect { half, fabric, offer, make });
        }
    }

    /// Ends a lane elsewhere, since that may wait for its device.
    pub(in crate::link) fn discard(&mut self, at: u8, lane: RailLane) {
        self.start(at, Task::Discard(Box::new(lane)));
    }

    /// A device that was torn out stays until everybody lets go of it. The leading end sees to that when it tries again.
    pub(in crate::link) fn tidy(&mut self, at: u8, now: Duration, settle: Duration) {
        let leads = self.leads;
        let rail = self.get_mut(at);
        if !leads && rail.take_tidy(now, settle) {
            let task = Task::Tidy { class: rail.plan().class, path: rail.plan().paths[1].clone() };
            self.start(at, task);
        }
    }

    /// When something is due on a rail by itself.
    pub(in crate::link) fn next_due(&self, now: Duration, config: &Config) -> Option<Duration> {
        let states = self.rails.iter().filter_map(|rail| match rail.state() {
            State::Trying { since, .. } if now < since + HEDGE => Some(since + HEDGE),
            State::Trying { until, .. } => Some(until),
            State::Fencing { since } => Some(since + config.silence),
            State::Standby { until } if self.leads => Some(until),
            _ => None,
        });
        // What is overdue waits for something else than time.
        let states = states.filter(|at| *at > now);
        let lanes =
            self.live.iter().filter_map(|at| self.lane(*at)?.next_due(now, config.op_timeout));
        let stranded = self.stranded.map(|since| since + config.without_rails);
        states.chain(lanes).chain(stranded).min()
    }

    fn start(&mut self, at: u8, task: Task) {
        let generation = self.get(at).generation();
        self.connector.start(ConnectorTask { rail: at, generation, task });
    }
}

/// How long worse rails wait for better ones that are being tried.
const HEDGE: Duration = Duration::from_secs(1);
