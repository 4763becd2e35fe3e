//! Regions: sending our keys to the peer, one for each lane, and receiving the peer's.

use super::Core;
use crate::error::{Error, ErrorKind};
use crate::link::protocol::control::{Control, Transport};
use crate::link::regions::DeferredGrant;
use crate::op::Failure;
use crate::region::Region;
use crate::registration::Registration;
use crate::remote::{RemoteRegion, Window};

impl Core {
    /// Grants the peer access to a region, on all lanes that can reach it.
    pub(crate) fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        if let Some(ended) = &self.ended {
            let fix = "connect again";
            return Err(Error::new(ErrorKind::Gone, "grant a region", &ended.why, fix));
        }
        let (id, remote) = self.regions.grant(region)?;
        for index in 0..self.rails.lane_count() {
            self.report_key(self.rails.rail_with_lane(index), id, region);
        }
        Ok(remote)
    }

    /// The window of a region that the peer granted.
    pub(crate) fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        let (window, query) = self.regions.import(remote)?;
        if query {
            self.send_control(&Control::Query { region: remote.key as u64 });
        }
        Ok(window)
    }

    /// Sends keys that were deferred because a lane was full, and ids of dropped regions.
    pub(super) fn report_regions(&mut self) {
        for DeferredGrant { rail, generation, region: id } in self.regions.take_deferred() {
            let current = self.rails.get(rail).generation() == generation;
            if let Some(region) = self.regions.granted(id).filter(|_| current) {
                self.report_key(rail, id, &region);
            }
        }
        for region in self.regions.take_dropped() {
            self.send_control(&Control::Gone { region });
        }
    }

    /// Grants a region on one lane, and sends its key to the peer.
    pub(super) fn report_key(&mut self, rail: u8, id: u64, region: &Region) {
        let entry = self.rails.get_mut(rail);
        let generation = entry.generation();
        let same_host_only = matches!(region.registration(), Registration::SameHost);
        let unreachable = same_host_only && entry.plan().transport != Transport::Shm;
        let Some(lane) = entry.lane_mut().filter(|lane| !lane.is_closed()) else { return };
        let granted = if unreachable { Ok(None) } else { lane.grant(region).map(Some) };
        let key = match granted {
            Ok(key) => key,
            // The peer must accept earlier grants first.
            Err(error) if error.kind() == ErrorKind::Full => {
                let grant = DeferredGrant { rail, generation, region: id };
                return self.regions.defer(grant);
            }
            // Another lane reaches the region, or operations on it are refused.
            Err(error) => {
                entry.set_why(format!("a region cannot be reached over this rail: {error}"));
                None
            }
        };
        self.send_control(&Control::Key { rail, generation, region: id, key });
    }

    /// A region key of the peer, for one lane.
    pub(super) fn peer_key(
        &mut self,
        rail: u8,
        generation: u32,
        region: u64,
        key: Option<RemoteRegion>,
    ) {
        if !self.regions.peer_granted(region) {
            return self
                .fail_link(Failure::ProtocolError, "the peer granted more regions than allowed");
        }
        let max_regions = self.config.max_regions;
        let Some(entry) = self.rails.find_mut(rail) else { return };
        if entry.take_key(generation, (region, key), max_regions) {
            self.operations.retry_key_pending();
        }
    }

    /// The peer has dropped a region. Its keys are not used any more: an access would end the lane.
    pub(super) fn peer_dropped(&mut self, region: u64) {
        self.regions.peer_dropped(region);
        self.rails.lanes_mut().for_each(|lane| lane.refuse_key(region));
        self.operations.retry_key_pending();
    }
}
