//! The preface, which an initiator sends first, unencrypted. The first six bytes are the same in all versions.

use std::fmt;

use super::key::KeyId;
use super::noise::FIRST_MESSAGE_BYTES;

/// The protocol versions that an end supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) lowest: u8,
    pub(super) highest: u8,
}

impl Versions {
    pub(super) const OURS: Versions = Versions { lowest: 1, highest: 1 };

    /// The highest version that both support.
    pub(super) fn common(self, other: Versions) -> Option<u8> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }

    pub(super) fn contains(self, version: u8) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.lowest, self.highest)
    }
}

/// A preface of version 1, without the first message of Noise that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preface {
    Plain,
    Noise { key: KeyId },
}

/// Why a preface is not valid for version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadPreface {
    Oversized,
    ProtocolError,
}

impl Preface {
    pub(super) fn to_bytes(self) -> [u8; PREFACE_BYTES] {
        let Versions { lowest, highest } = Versions::OURS;
        let (mode, key, length) = match self {
            Preface::Plain => (PLAIN, KeyId::default(), 0),
            Preface::Noise { key } => (NOISE, key, FIRST_MESSAGE_BYTES as u16),
        };
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..7].copy_from_slice(&[lowest, highest, mode]);
        bytes[7..23].copy_from_slice(&key);
        bytes[23..].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Parses what follows the versions, which are checked before.
    pub(super) fn parse(bytes: &[u8; PREFACE_BYTES]) -> Result<Self, BadPreface> {
        let [.., low, high] = *bytes;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let mut key = KeyId::default();
        key.copy_from_slice(&bytes[7..23]);
        match (bytes[6], length) {
            (PLAIN, 0) if key == KeyId::default() => Ok(Preface::Plain),
            (NOISE, FIRST_MESSAGE_BYTES) => Ok(Preface::Noise { key }),
            (PLAIN, 1..) | (NOISE, FIRST_MESSAGE_BYTES..) => Err(BadPreface::Oversized),
            _ => Err(BadPreface::ProtocolError),
        }
    }

    /// The length of the Noise message that follows.
    pub(super) fn noise_length(self) -> usize {
        match self {
            Preface::Plain => 0,
            Preface::Noise { .. } => FIRST_MESSAGE_BYTES,
        }
    }
}

/// The versions that an initiator supports, once they have arrived.
pub(super) fn versions(bytes: &[u8]) -> Option<Versions> {
    let [lowest, highest] = *bytes.get(4..6)?.first_chunk()?;
    Some(Versions { lowest, highest })
}

pub(super) const MAGIC: &[u8; 4] = b"WLC1";
pub(super) const PREFACE_BYTES: usize = 25;
const PLAIN: u8 = 0;
const NOISE: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        let versions = |lowest, highest| Versions { lowest, highest };
        assert_eq!(versions(1, 1).common(versions(1, 1)), Some(1));
        assert_eq!(versions(1, 5).common(versions(3, 9)), Some(5));
        assert_eq!(versions(3, 9).common(versions(1, 5)), Some(5));
        assert_eq!(versions(1, 1).common(versions(7, 9)), None);
    }

    #[test]
    fn prefaces_survive_encoding_and_invalid_ones_are_refused() {
        let noise = Preface::Noise { key: [9; 16] };
        for preface in [Preface::Plain, noise] {
            let bytes = preface.to_bytes();
            assert_eq!(Preface::parse(&bytes), Ok(preface));
            assert_eq!(versions(&bytes), Some(Versions::OURS));
            assert_eq!(versions(&bytes[..5]), None);
        }
        let changed = |preface: Preface, at: usize, to: u8| {
            let mut bytes = preface.to_bytes();
            bytes[at] = to;
            Preface::parse(&bytes).unwrap_err()
        };
        assert_eq!(changed(noise, 6, 2), BadPreface::ProtocolError);
        assert_eq!(changed(noise, 23, 47), BadPreface::ProtocolError);
        assert_eq!(changed(noise, 23, 49), BadPreface::Oversized);
        assert_eq!(changed(noise, 24, 255), BadPreface::Oversized);
        assert_eq!(changed(Preface::Plain, 7, 1), BadPreface::ProtocolError);
        assert_eq!(changed(Preface::Plain, 23, 1), BadPreface::Oversized);
    }
}
