//! Regions over a link: ours that the peer may use, and the peer's that we know of.
//!
//! A region has an id for the life of the link. The keys by which lanes reach it are reported for each lane: those that
//! a lane has no room for yet are kept here until it has.

mod granted;
mod peer;

use self::granted::Granted;
use self::peer::{PeerRegions, Standing};
use super::rails::index;
use crate::error::{Error, Kind};
use crate::region::{Region, Slice};
use crate::remote::{LaneKind, Reach, RemoteRegion, Window};

pub(super) struct Regions {
    /// The number by which windows know the link.
    link: u64,
    /// Names this life of ours, and the peer's, in regions.
    epochs: [u64; 2],
    granted: Granted,
    /// How many regions we may grant, and the peer.
    limits: [usize; 2],
    unreported: Vec<UnreportedKey>,
    peer: PeerRegions,
}

/// A key that a lane had no room for.
pub(super) struct UnreportedKey {
    pub(super) rail: u8,
    pub(super) generation: u32,
    pub(super) region: u64,
}

impl Regions {
    pub(super) fn new(epochs: [u64; 2], limits: [usize; 2]) -> Self {
        Regions {
            link: crate::lane::number(),
            epochs,
            granted: Granted::default(),
            limits,
            unreported: Vec::new(),
            peer: PeerRegions::default(),
        }
    }

    /// The number by which windows know the link.
    #[inline]
    pub(super) fn link(&self) -> u64 {
        self.link
    }

    // Ours.

    /// Gives a region its id, and says by what the peer names it.
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

    /// Those that are granted.
    pub(super) fn all_granted(&self) -> Vec<(u64, Region)> {
        self.granted.live()
    }

    /// Eight bytes that the peer may change.
    pub(super) fn word(&self, id: u64, offset: u64) -> Option<Slice> {
        self.granted.word(id, offset)
    }

    /// Those dropped since the last time.
    pub(super) fn take_gone(&self) -> Vec<u64> {
        self.granted.take_gone()
    }

    /// Keeps a key until its lane has room for it.
    pub(super) fn report_later(&mut self, key: UnreportedKey) {
        self.unreported.push(key);
    }

    pub(super) fn take_unreported(&mut self) -> Vec<UnreportedKey> {
        std::mem::take(&mut self.unreported)
    }

    // The peer's.

    /// The peer has granted a region; `false`: it may not grant so many.
    pub(super) fn peer_granted(&mut self, id: u64) -> bool {
        self.is_gone(id) || self.peer.set(id, Standing::Granted, self.limits[1])
    }

    pub(super) fn peer_dropped(&mut self, id: u64) {
        self.peer.gone(id, self.limits[1]);
    }

    /// Whether the peer has dropped a region.
    pub(super) fn is_gone(&self, id: u64) -> bool {
        self.peer.get(id) == Some(Standing::Gone)
    }

    /// The window on a region that the peer granted, and whether the peer must be asked for it.
    pub(super) fn import(&mut self, remote: &RemoteRegion) -> Result<(Window, bool), Error> {
        remote.expect(LaneKind::Link)?;
        let region = remote.key as u64;
        let denied = |why: &str| {
            Error::new(Kind::Denied, "import a region", why, "ask the peer to grant it anew")
        };
        if remote.address != self.epochs[1] {
            return Err(denied("it was granted over another link, or before the peer restarted"));
        }
        if index(region) >= self.limits[1] {
            return Err(denied("its number is beyond what this link allows"));
        }
        let ask = match self.peer.get(region) {
            Some(Standing::Gone) => return Err(denied("the peer has dropped it")),
            Some(_) => false,
            None => self.peer.set(region, Standing::Asked, self.limits[1]),
        };
        let window = Window::new(self.link, remote.length, remote.rights, Reach::Link { region });
        Ok((window, ask))
    }
}

const MAX: usize = 1 << 16;
