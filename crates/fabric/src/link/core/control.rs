//! Control messages: sending ours, and handling the peer's.

use super::Core;
use crate::link::event::EventKind;
use crate::link::protocol::control::Control;
use crate::link::protocol::hello::Hello;
use crate::op::Failure;

impl Core {
    pub(super) fn send_control(&mut self, message: &Control) {
        if let Err(why) = self.control.send(message) {
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// Handles control messages of the peer, a limited number per call, so that a peer that sends many cannot block us.
    pub(super) fn receive_control(&mut self) {
        for _ in 0..MAX_RECEIVED {
            if self.ended.is_some() {
                return self.control.ignore_rest();
            }
            match self.control.receive(self.now) {
                Ok(None) => return,
                Ok(Some(message)) => self.take_control(message),
                Err((failure, why)) => self.fail_link(failure, &why),
            }
        }
    }

    fn take_control(&mut self, message: Control) {
        match message {
            Control::Open { rail, generation, plan, offer } => {
                self.peer_opened(rail, generation, plan, offer);
            }
            Control::Opened { rail: at, generation, offer } => {
                let rail = self.rails.find_mut(at);
                if rail.is_some_and(|rail| rail.take_offer(generation, offer)) {
                    self.rails.connect(at, &self.config);
                }
            }
            Control::Connected { rail: at, generation, slots, probe } => {
                let rail = self.rails.find_mut(at);
                if rail.is_some_and(|rail| rail.peer_connected(generation, slots, probe)) {
                    self.probe(at);
                }
            }
            Control::Verified { rail: at, generation } => {
                let rail = self.rails.find_mut(at);
                if rail.is_some_and(|rail| rail.peer_proven(generation)) {
                    self.bring_up(at);
                }
            }
            Control::Fenced { rail: at, generation, received, why } => {
                // A peer that leaves does not fence.
                self.event_log.record_held();
                let rail = self.rails.find_mut(at);
                if rail.is_some_and(|rail| rail.peer_fenced(generation, received)) {
                    self.fail_rail(at, &format!("reported by the peer: {why}"));
                }
            }
            Control::Key { rail, generation, region, key } => {
                self.peer_key(rail, generation, region, key);
            }
            Control::Gone { region } => self.peer_dropped(region),
            Control::Query { region } => {
                if self.regions.granted(region).is_none() {
                    self.send_control(&Control::Gone { region });
                }
            }
            Control::Freed { rail: at, generation, freed, taken } => {
                let current = self.rails.find_mut(at).is_some_and(|r| r.generation() == generation);
                if current && !self.peer_freed(at, freed, taken) {
                    self.fail_link(
                        Failure::ProtocolError,
                        "the peer freed more slots than were used",
                    );
                }
            }
            Control::Devices { hello } => match Hello::parse(&hello) {
                Some(theirs) if self.rails.dialled() => self.rails.peer_has_devices(theirs),
                _ => self
                    .fail_link(Failure::ProtocolError, "the peer sent an invalid list of devices"),
            },
            Control::Heartbeat => {}
            Control::Bye { orderly, why } => {
                let what = if orderly { EventKind::Closed } else { EventKind::Ended };
                self.end(Failure::PeerGone, &format!("the peer ended the link: {why}"), what);
            }
        }
    }
}

/// The number of control messages handled per call.
const MAX_RECEIVED: usize = 256;
