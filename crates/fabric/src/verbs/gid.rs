//! Global identifiers: the addresses of RDMA ports.

use std::fmt;
use std::net::Ipv6Addr;

use rdma_sys::consts;
use serde::{Serialize, Serializer};

/// A 128-bit address, written like an IPv6 address, as the field does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Whether the table entry holds nothing: all zero, or a bare link-local prefix.
    pub fn is_empty(self) -> bool {
        self.0[8..] == [0; 8] && (self.0[..8] == [0; 8] || self.0[..2] == [0xfe, 0x80])
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Gid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How packets with this GID travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GidType {
    /// InfiniBand.
    #[serde(rename = "IB")]
    Ib,
    /// Ethernet frames, one broadcast domain.
    #[serde(rename = "RoCE v1")]
    RoceV1,
    /// UDP, routable.
    #[serde(rename = "RoCE v2")]
    RoceV2,
}

impl GidType {
    pub(super) fn from_verbs(value: u32) -> Option<Self> {
        match value {
            consts::IBV_GID_TYPE_IB => Some(GidType::Ib),
            consts::IBV_GID_TYPE_ROCE_V1 => Some(GidType::RoceV1),
            consts::IBV_GID_TYPE_ROCE_V2 => Some(GidType::RoceV2),
            _ => None,
        }
    }

    /// The words of ibv_devinfo and of sysfs.
    pub fn name(self) -> &'static str {
        match self {
            GidType::Ib => "IB",
            GidType::RoceV1 => "RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        }
    }
}

/// One filled entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GidEntry {
    /// Its place in the table; what `rdma_gid_index` means.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// Absent where the library cannot tell (before rdma-core 32).
    #[serde(rename = "type")]
    pub kind: Option<GidType>,
    /// The net device it came from; absent on InfiniBand and where the library cannot tell.
    pub netdev: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_mapped_gid_reads_as_one() {
        let mut raw = [0; 16];
        raw[10..].copy_from_slice(&[0xff, 0xff, 10, 77, 0, 1]);
        assert_eq!(Gid(raw).to_string(), "::ffff:10.77.0.1");
        assert!(!Gid(raw).is_empty());
    }

    #[test]
    fn empty_entries_are_told_apart() {
        assert!(Gid([0; 16]).is_empty());
        let mut bare_prefix = [0; 16];
        bare_prefix[..2].copy_from_slice(&[0xfe, 0x80]);
        assert!(Gid(bare_prefix).is_empty());
    }
}
