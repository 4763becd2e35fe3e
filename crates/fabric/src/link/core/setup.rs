//! Setup of rails: prepared, offered, connected, verified by a probe in both directions.

use super::Core;
use crate::error::ErrorKind;
use crate::link::event::EventKind;
use crate::link::messages::message_buffers::MessageBuffers;
use crate::link::operations::LaneOpKind;
use crate::link::protocol::control::{Control, RailPlan};
use crate::link::rails::connector::TaskOutput;
use crate::link::rails::{PROBE_BYTES, ProbeStep, RailChange, RailLane, SetupError};
use crate::op::{Failure, Work};

impl Core {
    /// The peer, which is the initiator, has prepared a lane.
    pub(super) fn peer_opened(
        &mut self,
        rail: u8,
        generation: u32,
        plan: RailPlan,
        offer: Vec<u8>,
    ) {
        if self.rails.is_initiator() || !self.rails.add(rail) {
            return self.fail_link(
                Failure::ProtocolError,
                "the peer opened a rail with an invalid number",
            );
        }
        // Both ends may have closed the last lane since the last check.
        if self.rails.get(rail).is_fencing() {
            self.check_rail(rail);
        }
        match self.rails.open_for_peer(rail, generation, plan, offer, self.now) {
            Some(true) => {}
            Some(false) => {
                self.fail_rail(
                    rail,
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
        while let Some((rail, product)) = self.rails.finished() {
            match product {
                Err(error) => {
                    if error.kind() == ErrorKind::Denied {
                        self.rails.get_mut(rail).deny();
                    }
                    self.fail_rail(rail, &error.to_string());
                }
                Ok(TaskOutput::Unconnected(unconnected, fabric)) => {
                    let offer = self.rails.prepared(rail, unconnected, fabric);
                    self.prepared(rail, offer);
                }
                Ok(TaskOutput::Lane(lane)) => self.connected(rail, *lane),
                // Handled by the rails.
                Ok(TaskOutput::Plan(_)) => {}
            }
        }
        if let Some(hello) = self.rails.take_announcement() {
            self.send_control(&Control::Devices { hello });
        }
    }

    fn prepared(&mut self, rail: u8, offer: Vec<u8>) {
        let entry = self.rails.get(rail);
        let generation = entry.generation();
        if self.rails.is_initiator() {
            let plan = entry.plan().clone();
            return self.send_control(&Control::Open { rail, generation, plan, offer });
        }
        self.send_control(&Control::Opened { rail, generation, offer });
        self.rails.connect(rail, &self.config);
    }

    fn connected(&mut self, rail: u8, mut lane: RailLane) {
        let probe = lane.grant_probe();
        let slots = lane.slots().map_or([0; 2], MessageBuffers::slots);
        let generation = self.rails.get(rail).generation();
        self.rails.set_lane(rail, lane);
        self.refill(rail);
        let probe = match probe {
            Ok(probe) => probe,
            Err(error) => return self.fail_rail(rail, &error.to_string()),
        };
        self.send_control(&Control::Connected { rail, generation, slots, probe });
        for (id, region) in self.regions.all_granted() {
            self.report_key(rail, id, &region);
        }
        self.rails.get_mut(rail).use_early_keys();
        self.probe(rail);
    }

    /// Starts the probe, once both ends are connected.
    pub(super) fn probe(&mut self, rail: u8) {
        match self.rails.get_mut(rail).start_probe() {
            Ok(None) => {}
            Ok(Some(write)) => self.post_probe(rail, write),
            Err(SetupError::Protocol(why)) => self.fail_link(Failure::ProtocolError, why),
            Err(SetupError::Lane(why)) => self.fail_rail(rail, &why),
        }
    }

    fn post_probe(&mut self, rail: u8, work: Work) {
        self.post_lane_op(rail, PROBE_BYTES as u64, work, LaneOpKind::Probe);
    }

    /// One step of the probe has completed.
    pub(super) fn probe_step_done(&mut self, rail: u8) {
        match self.rails.get_mut(rail).probe_step_done() {
            None => {}
            Some(ProbeStep::Read(read)) => self.post_probe(rail, read),
            Some(ProbeStep::Mismatch) => {
                self.fail_rail(rail, "the probe read back other bytes than it wrote")
            }
            Some(ProbeStep::Verified) => {
                let generation = self.rails.get(rail).generation();
                self.send_control(&Control::Verified { rail, generation });
                self.bring_up(rail);
            }
        }
    }

    /// Uses a rail, once both ends have verified it.
    pub(super) fn bring_up(&mut self, rail: u8) {
        if let Some(change) = self.rails.bring_up(rail, self.now) {
            let why = self.rails.get(rail).why().to_owned();
            self.record_change(change, &why);
        }
    }

    /// Records that a rail came up or failed. If that changed the rails in use, these may reach regions that others did not.
    pub(super) fn record_change(&mut self, change: RailChange, why: &str) {
        let RailChange { what, name, in_use } = change;
        self.event_log.record(self.now, what, name, why);
        if let Some(names) = in_use {
            self.event_log.record(self.now, EventKind::Switch, names, why);
            self.operations.retry_key_pending();
        }
    }
}
