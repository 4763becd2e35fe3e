//! What a lane reaches: the regions of the peer, by their keys, and for the peer ours; and the proof that it does.

use super::RailLane;
use crate::error::Error;
use crate::link::rails::keys::Key;
use crate::link::rails::probe::{PROBE, ProbeStep};
use crate::op::Work;
use crate::region::{Region, Slice};
use crate::remote::{RemoteRegion, Window};

impl RailLane {
    /// The key of a region of the peer's, if it came.
    #[inline]
    pub(in crate::link) fn key(&self, region: u64) -> Option<&Key> {
        self.keys.get(region)
    }

    /// The window by which it reaches a region of the peer's, if it does.
    #[inline]
    pub(in crate::link) fn window(&self, region: u64) -> Option<&Window> {
        match self.keys.get(region) {
            Some(Key::Open(window)) => Some(window),
            _ => None,
        }
    }

    /// The peer's key of a region came; `None`: the region cannot be reached by this lane.
    pub(in crate::link) fn import(&mut self, region: u64, key: Option<RemoteRegion>) {
        let window = key.and_then(|key| self.lane.import(&key).ok());
        self.keys.set(region, window.map_or(Key::Refused, Key::Open));
    }

    pub(in crate::link) fn refuse_key(&mut self, region: u64) {
        self.keys.refuse(region);
    }

    pub(in crate::link) fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        self.lane.grant(region)
    }

    /// Reads the peer's memory now, if the lane can.
    #[inline]
    pub(in crate::link) fn peek(&mut self, region: u64, offset: u64, into: &Slice) -> bool {
        match self.keys.get(region) {
            Some(Key::Open(window)) if !self.closed => self.lane.peek(window, offset, into),
            _ => false,
        }
    }

    /// Writes the peer's memory now, if the lane can.
    #[inline]
    pub(in crate::link) fn poke(
        &mut self,
        region: u64,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        match self.keys.get(region) {
            Some(Key::Open(window)) if !self.closed => self.lane.poke(window, offset, bytes, word),
            _ => false,
        }
    }

    // The probe.

    /// Lets the peer probe us.
    pub(in crate::link) fn grant_probe(&mut self) -> Result<RemoteRegion, Error> {
        self.lane.grant(self.probe.theirs())
    }

    /// The peer takes messages into so many slots, and has memory to probe: the first step, or why there is none.
    pub(in crate::link::rails) fn begin_probe(
        &mut self,
        slots: [u16; 2],
        remote: &RemoteRegion,
    ) -> Result<Work, String> {
        self.messages.peer_has(slots);
        match self.lane.import(remote) {
            Ok(window) if window.len() >= PROBE as u64 => Ok(self.probe.write(window)),
            Ok(_) => Err("the peer gave too little memory to probe".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(in crate::link::rails) fn next_of_probe(&mut self) -> Option<ProbeStep> {
        self.probe.next()
    }
}
