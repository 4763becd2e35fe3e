//! A peer's region, as told by the peer: bytes to be sent along, and what they become here.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::region::Rights;
use crate::segment::mapping::PeerMapping;

/// What a peer must know to use a region over one lane. Opaque: send its bytes to the peer, whose
/// lane makes a [`Window`] of them.
///
/// Nobody makes one up:
/// ```compile_fail,E0451
/// fn forge(real: fabric::RemoteRegion) -> fabric::RemoteRegion {
///     fabric::RemoteRegion { length: u64::MAX, ..real }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    pub(crate) lane: LaneKind,
    pub(crate) rights: Rights,
    pub(crate) length: u64,
    pub(crate) address: u64,
    pub(crate) key: u128,
}

/// Which lane a region was granted on: the keys of one mean nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneKind {
    Verbs = 1,
    Shm = 2,
    Tcp = 3,
    Sim = 4,
    Link = 5,
    Ofi = 6,
}

impl RemoteRegion {
    /// How many bytes it is.
    pub const ENCODED: usize = 36;
    const VERSION: u8 = 1;

    /// As bytes, for the peer.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = Self::VERSION;
        bytes[1] = self.lane as u8;
        bytes[2] = self.rights.bits();
        bytes[4..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.address.to_le_bytes());
        bytes[20..36].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// Refuses what was granted on another kind of lane.
    pub(crate) fn expect(&self, lane: LaneKind) -> Result<(), Error> {
        if self.lane == lane {
            return Ok(());
        }
        let why = format!("it was granted on a lane of kind {:?}, this one is {lane:?}", self.lane);
        let fix = "import a region on the lane it was granted on";
        Err(Error::new(Kind::Misuse, "import a region", why, fix))
    }

    /// From a peer's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |why: String| {
            let fix = "pass on the peer's bytes as they are; both ends must run versions that \
                          know each other";
            Error::new(Kind::Misuse, "read a remote region", why, fix)
        };
        let bytes: &[u8; Self::ENCODED] = bytes
            .try_into()
            .map_err(|_| wrong(format!("{} bytes, not {}", bytes.len(), Self::ENCODED)))?;
        if bytes[0] != Self::VERSION {
            return Err(wrong(format!(
                "format {}, this program knows {}",
                bytes[0],
                Self::VERSION
            )));
        }
        let lane = match bytes[1] {
            1 => LaneKind::Verbs,
            2 => LaneKind::Shm,
            3 => LaneKind::Tcp,
            4 => LaneKind::Sim,
            5 => LaneKind::Link,
            6 => LaneKind::Ofi,
            other => return Err(wrong(format!("no lane has the number {other}"))),
        };
        let rights = Rights::from_bits(bytes[2]).filter(|_| bytes[3] == 0);
        let rights = rights.ok_or_else(|| wrong("unknown rights".to_owned()))?;
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let key = u128::from_le_bytes(bytes[20..36].try_into().expect("sixteen bytes"));
        Ok(RemoteRegion { lane, rights, length: number(4), address: number(12), key })
    }
}

/// A peer's region, usable on the lane that imported it.
///
/// It has an address only for the lane:
/// ```compile_fail,E0616
/// fn address(window: &fabric::Window) {
///     let _ = &window.view;
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Window {
    // Behind a pointer, so that operations that carry it are small.
    view: Arc<View>,
}

#[derive(Debug)]
struct View {
    /// The lane that imported it.
    lane: u64,
    length: u64,
    rights: Rights,
    reach: Reach,
}

/// How its bytes are reached.
#[derive(Debug)]
pub(crate) enum Reach {
    /// By the device.
    Verbs { address: u64, key: u32 },
    /// By a provider of libfabric; the address of its first byte, or 0 where offsets count.
    Ofi { address: u64, key: u64 },
    /// By asking the peer, with the key it gave.
    Ask { key: u128 },
    /// By a mapping of the peer's pages.
    Mapped(PeerMapping),
    /// By the kernel, at this address of the peer's process; by asking where that fails.
    Process { address: u64, key: u128 },
    /// By whatever lane the link has, under this id.
    Link { region: u64 },
}

impl Window {
    pub(crate) fn new(lane: u64, length: u64, rights: Rights, reach: Reach) -> Self {
        Window { view: Arc::new(View { lane, length, rights, reach }) }
    }

    #[inline]
    pub(crate) fn lane(&self) -> u64 {
        self.view.lane
    }

    #[inline]
    pub(crate) fn reach(&self) -> &Reach {
        &self.view.reach
    }

    /// Its id, if it is a link's.
    #[inline]
    pub(crate) fn region(&self) -> Option<u64> {
        match self.view.reach {
            Reach::Link { region } => Some(region),
            _ => None,
        }
    }

    /// How many bytes it has, by the peer's word.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    #[inline]
    pub fn len(&self) -> u64 {
        self.view.length
    }

    /// What may be done with it, by the peer's word.
    #[inline]
    pub fn rights(&self) -> Rights {
        self.view.rights
    }

    /// A place in it. Beyond its end every operation fails, as the peer would have it.
    pub fn at(&self, offset: u64) -> Target {
        Target { window: self.clone(), offset }
    }
}

/// A place in a peer's region.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) window: Window,
    pub(crate) offset: u64,
}

impl Target {
    /// Whether `length` bytes from here lie within the window.
    #[inline]
    pub(crate) fn holds(&self, length: usize) -> bool {
        let end = self.offset.checked_add(length as u64);
        end.is_some_and(|end| end <= self.window.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for lane in [
            LaneKind::Verbs,
            LaneKind::Shm,
            LaneKind::Tcp,
            LaneKind::Sim,
            LaneKind::Link,
            LaneKind::Ofi,
        ] {
            let remote = RemoteRegion {
                lane,
                rights: Rights { read: true, ..Rights::NONE },
                length: u64::MAX,
                address: 7,
                key: u128::MAX - 1,
            };
            assert_eq!(RemoteRegion::from_bytes(&remote.to_bytes()), Ok(remote));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let good = RemoteRegion {
            lane: LaneKind::Tcp,
            rights: Rights::ALL,
            length: 1,
            address: 2,
            key: 3,
        };
        let good = good.to_bytes();
        RemoteRegion::from_bytes(&good[..35]).expect_err("too short");
        RemoteRegion::from_bytes(&[&good[..], &[0]].concat()).expect_err("too long");
        for (at, value) in [(0, 2), (1, 9), (2, 8), (3, 1)] {
            let mut bad = good;
            bad[at] = value;
            RemoteRegion::from_bytes(&bad).expect_err("a field it does not know");
        }
    }
}
