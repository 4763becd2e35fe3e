//! Access to the peer's regions on a lane, grants of ours, and the probe.

use super::RailLane;
use crate::error::Error;
use crate::lane::MappedInto;
use crate::link::rails::keys::RegionKey;
use crate::link::rails::probe::{PROBE_BYTES, ProbeStep};
use crate::op::Work;
use crate::region::Region;
use crate::remote::{RemoteRegion, Window};

impl RailLane {
    /// The key of a region of the peer, if it has arrived.
    #[inline]
    pub(in crate::link) fn key(&self, region: u64) -> Option<&RegionKey> {
        self.keys.get(region)
    }

    /// The window of a region of the peer on this lane, if it can be reached.
    #[inline]
    pub(in crate::link) fn window(&self, region: u64) -> Option<&Window> {
        match self.keys.get(region) {
            Some(RegionKey::Usable(window)) => Some(window),
            _ => None,
        }
    }

    /// Stores the peer's key of a region; `None`: the region cannot be reached on this lane.
    pub(in crate::link) fn import(&mut self, region: u64, key: Option<RemoteRegion>) {
        let window = key.and_then(|key| self.lane.import(&key).ok());
        self.keys.set(region, window.map_or(RegionKey::Refused, RegionKey::Usable));
    }

    pub(in crate::link) fn refuse_key(&mut self, region: u64) {
        self.keys.refuse(region);
    }

    pub(in crate::link) fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        self.lane.grant(region)
    }

    /// Reads the peer's memory without an operation, if the lane supports it.
    #[inline]
    pub(in crate::link) fn read_mapped(
        &mut self,
        region: u64,
        offset: u64,
        into: MappedInto<'_>,
    ) -> bool {
        match self.keys.get(region) {
            Some(RegionKey::Usable(window)) if !self.closed => {
                self.lane.read_mapped(window, offset, into)
            }
            _ => false,
        }
    }

    /// Writes the peer's memory without an operation, if the lane supports it.
    #[inline]
    pub(in crate::link) fn write_mapped(
        &mut self,
        region: u64,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        match self.keys.get(region) {
            Some(RegionKey::Usable(window)) if !self.closed => {
                self.lane.write_mapped(window, offset, bytes, word)
            }
            _ => false,
        }
    }

    // The probe.

    /// Grants the peer our probe region.
    pub(in crate::link) fn grant_probe(&mut self) -> Result<RemoteRegion, Error> {
        self.lane.grant(self.probe.theirs())
    }

    /// Takes the number of the peer's slots and its probe region; returns the first step, or an error.
    pub(in crate::link::rails) fn start_probe(
        &mut self,
        slots: [u16; 2],
        remote: &RemoteRegion,
    ) -> Result<Work, String> {
        match self.slots_mut() {
            Some(ours) => ours.set_peer_slots(slots),
            None if slots == [0; 2] => {}
            None => return Err("the peer expects its messages in another way".to_owned()),
        }
        match self.lane.import(remote) {
            Ok(window) if window.len() >= PROBE_BYTES as u64 => Ok(self.probe.write(window)),
            Ok(_) => Err("the peer's probe region is too small".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(in crate::link::rails) fn next_probe_step(&mut self) -> Option<ProbeStep> {
        self.probe.next()
    }
}
