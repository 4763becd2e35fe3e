//! Regions: their keys, one for each lane, go to the peer, and the peer's come.

use super::Core;
use crate::error::{Error, Kind};
use crate::link::protocol::control::{Class, Control};
use crate::link::regions::UnreportedKey;
use crate::op::Failure;
use crate::region::Region;
use crate::registration::Registration;
use crate::remote::{RemoteRegion, Window};

impl Core {
    /// Lets the peer use a region, by all lanes that reach it.
    pub(crate) fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        if let Some(ended) = &self.ended {
            let fix = "connect anew";
            return Err(Error::new(Kind::Gone, "grant a region", &ended.why, fix));
        }
        let (id, remote) = self.regions.grant(region)?;
        for place in 0..self.rails.live_count() {
            self.report_key(self.rails.live(place), id, region);
        }
        Ok(remote)
    }

    /// The window on a region that the peer granted.
    pub(crate) fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        let (window, ask) = self.regions.import(remote)?;
        if ask {
            self.send_control(&Control::Ask { region: remote.key as u64 });
        }
        Ok(window)
    }

    /// Reports what lanes had no room for, and what was dropped.
    pub(super) fn report_regions(&mut self) {
        for UnreportedKey { rail, generation, region: id } in self.regions.take_unreported() {
            let current = self.rails.get(rail).generation() == generation;
            if let Some(region) = self.regions.granted(id).filter(|_| current) {
                self.report_key(rail, id, &region);
            }
        }
        for region in self.regions.take_gone() {
            self.send_control(&Control::Gone { region });
        }
    }

    /// Lets the peer reach a region by one lane.
    pub(super) fn report_key(&mut self, at: u8, id: u64, region: &Region) {
        let rail = self.rails.get_mut(at);
        let generation = rail.generation();
        let only_near = matches!(region.registration(), Registration::Near);
        let unreachable = only_near && rail.plan().class != Class::Shm;
        let Some(lane) = rail.lane_mut().filter(|lane| !lane.is_closed()) else { return };
        let granted = if unreachable { Ok(None) } else { lane.grant(region).map(Some) };
        let key = match granted {
            Ok(key) => key,
            // The peer must take in others first.
            Err(error) if error.kind() == Kind::Full => {
                let key = UnreportedKey { rail: at, generation, region: id };
                return self.regions.report_later(key);
            }
            // A region that a lane cannot reach is reached by another, or refused.
            Err(error) => {
                rail.set_why(format!("a region cannot be reached by it: {error}"));
                None
            }
        };
        self.send_control(&Control::Key { rail: at, generation, region: id, key });
    }

    /// The peer's key of a region, for one lane.
    pub(super) fn peer_key(
        &mut self,
        at: u8,
        generation: u32,
        region: u64,
        key: Option<RemoteRegion>,
    ) {
        if !self.regions.peer_granted(region) {
            return self
                .fail_link(Failure::ProtocolError, "the peer grants more regions than it may");
        }
        let most = self.config.regions;
        let Some(rail) = self.rails.named(at) else { return };
        if rail.take_key(generation, (region, key), most) {
            self.operations.retry_keyless();
        }
    }

    /// The peer has dropped a region. A lane that would be asked for it all the same would die of the answer.
    pub(super) fn peer_dropped(&mut self, region: u64) {
        self.regions.peer_dropped(region);
        self.rails.lanes_mut().for_each(|lane| lane.refuse_key(region));
        self.operations.retry_keyless();
    }
}
