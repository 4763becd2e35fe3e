//! Regions on a link: ours that are granted to the peer, and the peer's.
//!
//! A region has an id for the life of the link, and a key for each lane. Keys that
//! could not be granted because a lane was full wait here.

mod granted;
mod peer;

use self::granted::Granted;
use self::peer::{PeerRegions, RegionState};
use super::rails::region_index;
use crate::error::{Error, ErrorKind};
use crate::region::{Region, Slice};
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};

pub(super) struct Regions {
    /// The link's number in windows.
    link: u64,
    /// The epochs of this process and of the peer's.
    epochs: [u64; 2],
    granted: Granted,
    /// The maximum numbers of regions granted by us, and by the peer.
    limits: [usize; 2],
    deferred: Vec<DeferredGrant>,
    peer: PeerRegions,
}

/// A grant on a lane that was full, to be tried again.
pub(super) struct DeferredGrant {
    pub(super) rail: u8,
    pub(super) generation: u32,
    pub(super) region: u64,
}

impl Regions {
    pub(super) fn new(epochs: [u64; 2], limits: [usize; 2]) -> Self {
        Regions {
            link: crate::lane::next_lane_id(),
            epochs,
            granted: Granted::default(),
            limits,
            deferred: Vec::new(),
            peer: PeerRegions::default(),
        }
    }

    /// The link's number in windows.
    #[inline]
    pub(super) fn link(&self) -> u64 {
        self.link
    }

    // Ours.

    /// Assigns an id to a region, and returns its description for the peer.
    pub(super) fn grant(&mut self, region: &Region) -> Result<(u64, RemoteRegion), Error> {
        let id = self.granted.add(region, self.limits[0])?;
        let remote = RemoteRegion {
            lane: LaneKind::Link,
            rights: region.rights(),
            length: region.len() as u64,
            address: self.epochs[0],
            key: id.into(),
        };
        Ok((id, remote))
    }

    pub(super) fn granted(&self, id: u64) -> Option<Region> {
        self.granted.get(id)
    }

    /// All granted regions.
    pub(super) fn all_granted(&self) -> Vec<(u64, Region)> {
        self.granted.live()
    }

    /// Eight bytes that the peer may change with an atomic operation.
    pub(super) fn word(&self, id: u64, offset: u64) -> Option<Slice> {
        self.granted.word(id, offset)
    }

    /// Takes the ids of dropped regions.
    pub(super) fn take_dropped(&self) -> Vec<u64> {
        self.granted.take_dropped()
    }

    /// Stores a grant to be tried again.
    pub(super) fn defer(&mut self, grant: DeferredGrant) {
        self.deferred.push(grant);
    }

    pub(super) fn take_deferred(&mut self) -> Vec<DeferredGrant> {
        std::mem::take(&mut self.deferred)
    }

    // The peer's.

    /// The peer has granted a region; `false`: more than allowed.
    pub(super) fn peer_granted(&mut self, id: u64) -> bool {
        self.is_gone(id) || self.peer.set(id, RegionState::Granted, self.limits[1])
    }

    pub(super) fn peer_dropped(&mut self, id: u64) {
        self.peer.gone(id, self.limits[1]);
    }

    /// Whether the peer has dropped a region.
    pub(super) fn is_gone(&self, id: u64) -> bool {
        self.peer.get(id) == Some(RegionState::Gone)
    }

    /// The window of a region that the peer granted, and whether the peer must be queried about it.
    pub(super) fn import(&mut self, remote: &RemoteRegion) -> Result<(Window, bool), Error> {
        remote.expect(LaneKind::Link)?;
        let region = remote.key as u64;
        let denied = |why: &str| {
            Error::new(ErrorKind::Denied, "import a region", why, "ask the peer to grant it again")
        };
        if remote.address != self.epochs[1] {
            return Err(denied("it was granted over another link, or before the peer restarted"));
        }
        if region_index(region) >= self.limits[1] {
            return Err(denied("its id is above the limit of this link"));
        }
        let query = match self.peer.get(region) {
            Some(RegionState::Gone) => return Err(denied("the peer has dropped it")),
            Some(_) => false,
            None => self.peer.set(region, RegionState::Queried, self.limits[1]),
        };
        let window =
            Window::new(self.link, remote.length, remote.rights, AccessMethod::Link { region });
        Ok((window, query))
    }
}

const MAX_REGIONS: usize = 1 << 16;
