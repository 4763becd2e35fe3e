//! Rails that are added later, when devices appear. While no rail uses RDMA, the initiator plans again, and the
//! listener looks for devices that it did not have, to announce them.

use std::time::Duration;

use super::connector::{ConnectorTask, NO_RAIL, NewPlan, Task};
use super::{MAX_RAILS, Rail, Rails};
use crate::link::config::Config;
use crate::link::protocol::control::{RailPlan, Transport};
use crate::link::protocol::hello::Hello;

pub(super) struct Planning {
    /// At the initiator, whether to plan again: an end may get devices. At the listener, whether it may still announce some.
    enabled: bool,
    /// The devices that the peer has announced.
    theirs: Option<Box<Hello>>,
    /// Whether they were announced since the last plan.
    announced: bool,
    /// When the last plan was made or requested.
    last: Duration,
    /// Differs between links, so that those made together do not plan together.
    spread: Duration,
    /// Whether a task is running.
    busy: bool,
    /// The newest plan, until the link's status has it.
    new: Option<Box<NewPlan>>,
}

impl Planning {
    pub(super) fn new(enabled: bool, spread: Duration, now: Duration) -> Self {
        Planning {
            enabled,
            theirs: None,
            announced: false,
            last: now,
            spread,
            busy: false,
            new: None,
        }
    }
}

impl Rails {
    /// Starts a task that plans again, if that is due.
    pub(in crate::link) fn plan_if_due(&mut self, now: Duration, config: &Config) {
        if self.plan_due(config).is_some_and(|due| due <= now) {
            self.planning.busy = true;
            self.planning.announced = false;
            self.planning.last = now;
            let task = Task::Plan(self.planning.theirs.clone());
            self.connector.start(ConnectorTask { rail: NO_RAIL, generation: 0, task });
        }
    }

    /// When to plan again: never while a rail for RDMA is planned, or shared memory is in use, which is better.
    pub(super) fn plan_due(&self, config: &Config) -> Option<Duration> {
        let Planning { enabled, announced, last, spread, busy, .. } = &self.planning;
        let is_rdma =
            |rail: &Rail| matches!(rail.plan().transport, Transport::Verbs | Transport::Ofi);
        let is_best = self.rails.iter().any(is_rdma) || self.uses_shared_memory();
        let pause = if *announced { config.retry_delay } else { config.max_retry_pause + *spread };
        (*enabled && !busy && !is_best).then(|| last.saturating_add(pause))
    }

    /// A task has planned again: adds the rails that are new.
    pub(super) fn planned(&mut self, plan: Option<Box<NewPlan>>) {
        self.planning.busy = false;
        let Some(plan) = plan else { return };
        for new in &plan.plans {
            let is_same = |rail: &Rail| {
                (rail.plan().transport, &rail.plan().port_names) == (new.transport, &new.port_names)
            };
            if self.rails.len() < MAX_RAILS && !self.rails.iter().any(is_same) {
                self.rails.push(Rail::new(RailPlan::clone(new)));
            }
        }
        self.planning.new = Some(plan);
    }

    /// The task has failed: it is repeated later.
    pub(super) fn planning_failed(&mut self) {
        self.planning.busy = false;
    }

    /// The peer has announced its devices.
    pub(in crate::link) fn peer_has_devices(&mut self, theirs: Hello) {
        self.planning.enabled = true;
        self.planning.announced = true;
        self.planning.theirs = Some(Box::new(theirs));
    }

    /// Our hello with devices that we did not have, for the initiator; once.
    pub(in crate::link) fn take_announcement(&mut self) -> Option<Vec<u8>> {
        let Planning { enabled, new, .. } = &mut self.planning;
        let plan = new.as_ref().filter(|plan| *enabled && !plan.ours.ports.is_empty())?;
        if self.is_initiator {
            return None;
        }
        *enabled = false;
        Some(plan.ours.to_bytes())
    }

    /// The newest plan, which the link's status does not have yet.
    pub(in crate::link) fn take_new_plan(&mut self) -> Option<Box<NewPlan>> {
        self.planning.new.take()
    }
}
