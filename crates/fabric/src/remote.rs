//! A peer's region: its description as bytes, and the window that a lane creates from it.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::region::Rights;
use crate::segment::mapping::PeerMapping;

/// What a peer needs to access a region over one lane. Opaque: send its bytes to the peer, whose
/// lane creates a [`Window`] from them.
///
/// Its fields cannot be forged:
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

/// The kind of lane that a region was granted on: keys are not valid on another.
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
    /// The length of the encoding.
    pub const ENCODED_BYTES: usize = 36;
    const VERSION: u8 = 1;

    /// Encodes it for the peer.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut bytes = [0; Self::ENCODED_BYTES];
        bytes[0] = Self::VERSION;
        bytes[1] = self.lane as u8;
        bytes[2] = self.rights.bits();
        bytes[4..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.address.to_le_bytes());
        bytes[20..36].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// Refuses a region that was granted on another kind of lane.
    pub(crate) fn expect(&self, lane: LaneKind) -> Result<(), Error> {
        if self.lane == lane {
            return Ok(());
        }
        let why = format!("it was granted on a lane of kind {:?}, this one is {lane:?}", self.lane);
        let fix = "import a region on the lane it was granted on";
        Err(Error::new(ErrorKind::Misuse, "import a region", why, fix))
    }

    /// Decodes a peer's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let invalid = |why: String| {
            let fix = "pass on the peer's bytes unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a remote region", why, fix)
        };
        let bytes: &[u8; Self::ENCODED_BYTES] = bytes
            .try_into()
            .map_err(|_| invalid(format!("{} bytes, not {}", bytes.len(), Self::ENCODED_BYTES)))?;
        if bytes[0] != Self::VERSION {
            return Err(invalid(format!("format {}, expected {}", bytes[0], Self::VERSION)));
        }
        let lane = match bytes[1] {
            1 => LaneKind::Verbs,
            2 => LaneKind::Shm,
            3 => LaneKind::Tcp,
            4 => LaneKind::Sim,
            5 => LaneKind::Link,
            6 => LaneKind::Ofi,
            other => return Err(invalid(format!("unknown kind of lane: {other}"))),
        };
        let rights = Rights::from_bits(bytes[2]).filter(|_| bytes[3] == 0);
        let rights = rights.ok_or_else(|| invalid("unknown rights".to_owned()))?;
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let key = u128::from_le_bytes(bytes[20..36].try_into().expect("sixteen bytes"));
        Ok(RemoteRegion { lane, rights, length: number(4), address: number(12), key })
    }
}

/// A peer's region, usable on the lane that imported it.
///
/// Only the lane can see its address:
/// ```compile_fail,E0616
/// fn address(window: &fabric::Window) {
///     let _ = &window.inner;
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Window {
    // Behind a pointer, so that operations with a window stay small.
    inner: Arc<WindowInner>,
}

#[derive(Debug)]
struct WindowInner {
    /// The lane that imported it.
    lane: u64,
    length: u64,
    rights: Rights,
    access_method: AccessMethod,
}

/// How the window's bytes are accessed.
#[derive(Debug)]
pub(crate) enum AccessMethod {
    /// By the device.
    Verbs { address: u64, key: u32 },
    /// By a libfabric provider; the address of the first byte, or 0 if the provider uses offsets.
    Ofi { address: u64, key: u64 },
    /// By requests to the peer, with its key.
    Request { key: u128 },
    /// By a mapping of the peer's pages.
    Mapped(PeerMapping),
    /// By the kernel, at this address of the peer's process; by requests if that fails.
    Process { address: u64, key: u128 },
    /// By any lane of the link; the link's id of the region.
    Link { region: u64 },
}

impl Window {
    pub(crate) fn new(lane: u64, length: u64, rights: Rights, access_method: AccessMethod) -> Self {
        Window { inner: Arc::new(WindowInner { lane, length, rights, access_method }) }
    }

    #[inline]
    pub(crate) fn lane(&self) -> u64 {
        self.inner.lane
    }

    #[inline]
    pub(crate) fn access_method(&self) -> &AccessMethod {
        &self.inner.access_method
    }

    /// The region's id, if it is a link's.
    #[inline]
    pub(crate) fn region(&self) -> Option<u64> {
        match self.inner.access_method {
            AccessMethod::Link { region } => Some(region),
            _ => None,
        }
    }

    /// Its length in bytes, as the peer states it.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    #[inline]
    pub fn len(&self) -> u64 {
        self.inner.length
    }

    /// The granted rights, as the peer states them.
    #[inline]
    pub fn rights(&self) -> Rights {
        self.inner.rights
    }

    /// The target at an offset. Operations beyond the window's end fail.
    pub fn at(&self, offset: u64) -> Target {
        Target { window: self.clone(), offset }
    }
}

/// An offset in a peer's region.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) window: Window,
    pub(crate) offset: u64,
}

impl Target {
    /// Whether `length` bytes from here are within the window.
    #[inline]
    pub(crate) fn contains(&self, length: usize) -> bool {
        let end = self.offset.checked_add(length as u64);
        end.is_some_and(|end| end <= self.window.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_region_is_decoded_unchanged() {
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
            RemoteRegion::from_bytes(&bad).expect_err("an unknown value of a field");
        }
    }
}
