//! Setup of rails: prepared, offered, connected, probed in both directions.

use super::Core;
use crate::link::event::EventKind;
use crate::link::operations::LaneOpKind;
use crate::link::protocol::control::{Control, RailPlan};
use crate::link::rails::connector::TaskOutput;
use crate::link::rails::{PROBE_BYTES, ProbeStep, RailChange, RailLane, SetupError};
use crate::op::{Failure, Work};

impl Core {
    /// The peer, which dialled, has prepared a lane.
    pub(super) fn peer_opened(&mut self, at: u8, generation: u32, plan: RailPlan, offer: Vec<u8>) {
        if self.rails.dialled() || !self.rails.add(at) {
            return self.fail_link(
                Failure::ProtocolError,
                "the peer opened a rail with an invalid number",
            );
        }
        // Both ends may have closed the last lane since the last check.
        if self.rails.get(at).is_fencing() {
            self.check_rail(at);
        }
        match self.rails.follow(at, generation, plan, offer, self.now) {
            Some(true) => {}
            Some(false) => {
                self.fail_rail(
                    at,
                    "the previous attempt has not finished: a device does not answer",
                );
            }
            None => {
                self.fail_link(Failure::ProtocolError, "the peer opened a rail that is in use");
            }
        }
    }

    /// Takes results of the connector: unconnected lanes, and lanes.
    pub(super) fn take_finished(&mut self) {
        while let Some((at, product)) = self.rails.finished() {
            match product {
                Err(error) => self.fail_rail(at, &error.to_string()),
                Ok(TaskOutput::Unconnected(unconnected, fabric)) => {
                    let offer = self.rails.prepared(at, unconnected, fabric);
                    self.prepared(at, offer);
                }
                Ok(TaskOutput::Lane(lane)) => self.connected(at, *lane),
                // Handled by the rails.
                Ok(TaskOutput::Plan(_)) => {}
            }
        }
        if let Some(hello) = self.rails.take_announcement() {
            self.send_control(&Control::Devices { hello });
        }
    }

    fn prepared(&mut self, at: u8, offer: Vec<u8>) {
        let rail = self.rails.get(at);
        let generation = rail.generation();
        if self.rails.dialled() {
            let plan = rail.plan().clone();
            return self.send_control(&Control::Open { rail: at, generation, plan, offer });
        }
        self.send_control(&Control::Opened { rail: at, generation, offer });
        self.rails.connect(at, &self.config);
    }

    fn connected(&mut self, at: u8, mut lane: RailLane) {
        let probe = lane.grant_probe();
        let slots = lane.messages().slots();
        let generation = self.rails.get(at).generation();
        self.rails.attach(at, lane);
        self.refill(at);
        let probe = match probe {
            Ok(probe) => probe,
            Err(error) => return self.fail_rail(at, &error.to_string()),
        };
        self.send_control(&Control::Connected { rail: at, generation, slots, probe });
        for (id, region) in self.regions.all_granted() {
            self.report_key(at, id, &region);
        }
        self.rails.get_mut(at).use_early_keys();
        self.probe(at);
    }

    /// Starts the probe, once both ends are connected.
    pub(super) fn probe(&mut self, at: u8) {
        match self.rails.get_mut(at).start_probe() {
            Ok(None) => {}
            Ok(Some(write)) => self.post_probe(at, write),
            Err(SetupError::Protocol(why)) => self.fail_link(Failure::ProtocolError, why),
            Err(SetupError::Lane(why)) => self.fail_rail(at, &why),
        }
    }

    fn post_probe(&mut self, at: u8, work: Work) {
        self.post_lane_op(at, PROBE_BYTES as u64, work, LaneOpKind::Probe);
    }

    /// One step of the probe has completed.
    pub(super) fn probed(&mut self, at: u8) {
        match self.rails.get_mut(at).probed() {
            None => {}
            Some(ProbeStep::Read(read)) => self.post_probe(at, read),
            Some(ProbeStep::Changed) => {
                self.fail_rail(at, "the probe read back other bytes than it wrote")
            }
            Some(ProbeStep::Verified) => {
                let generation = self.rails.get(at).generation();
                self.send_control(&Control::Verified { rail: at, generation });
                self.bring_up(at);
            }
        }
    }

    /// Uses a rail, once both ends have probed it.
    pub(super) fn bring_up(&mut self, at: u8) {
        if let Some(change) = self.rails.bring_up(at, self.now) {
            let why = self.rails.get(at).why().to_owned();
            self.record_change(change, &why);
        }
    }

    /// Records that a rail came up or failed. If that changed the rails in use, these may reach regions that others did not.
    pub(super) fn record_change(&mut self, change: RailChange, why: &str) {
        let RailChange { what, rail, in_use } = change;
        self.event_log.record(self.now, what, rail, why);
        if let Some(names) = in_use {
            self.event_log.record(self.now, EventKind::Switch, names, why);
            self.operations.retry_keyless();
        }
    }
}
