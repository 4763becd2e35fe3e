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
            Control::Opened { rail, generation, offer } => {
                let entry = self.rails.find_mut(rail);
                if entry.is_some_and(|entry| entry.take_offer(generation, offer)) {
                    self.rails.connect(rail, &self.config);
                }
            }
            Control::Connected { rail, generation, slots, probe } => {
                let entry = self.rails.find_mut(rail);
                if entry.is_some_and(|entry| entry.peer_connected(generation, slots, probe)) {
                    self.probe(rail);
                }
            }
            Control::Verified { rail, generation } => {
                let entry = self.rails.find_mut(rail);
                if entry.is_some_and(|entry| entry.peer_verified(generation)) {
                    self.bring_up(rail);
                }
            }
            Control::Fenced { rail, generation, received, why } => {
                // Only a peer that stays fences: the rail has failed, and events that might have been those of its goodbye are logged.
                self.event_log.record_held();
                let entry = self.rails.find_mut(rail);
                if entry.is_some_and(|entry| entry.peer_fenced(generation, received)) {
                    self.fail_rail(rail, &format!("reported by the peer: {why}"));
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
            Control::Freed { rail, generation, freed, taken } => {
                let current =
                    self.rails.find_mut(rail).is_some_and(|entry| entry.generation() == generation);
                if current && !self.peer_freed(rail, freed, taken) {
                    self.fail_link(
                        Failure::ProtocolError,
                        "the peer freed more slots than were used",
                    );
                }
            }
            Control::Devices { hello } => match Hello::parse(&hello) {
                Some(theirs) if self.rails.is_initiator() => self.rails.peer_has_devices(theirs),
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
