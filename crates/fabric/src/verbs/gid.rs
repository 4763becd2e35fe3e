//! Global identifiers: the addresses of RDMA ports.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use rdma_sys::consts;
use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorKind};

/// A 128-bit address, displayed like an IPv6 address, as usual.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Whether the table entry is unused: all zero, or a link-local prefix without an interface id.
    pub fn is_empty(self) -> bool {
        self.0[8..] == [0; 8] && (self.0[..8] == [0; 8] || self.0[..2] == [0xfe, 0x80])
    }

    /// The IP address that it is on Ethernet.
    pub(super) fn ip(self) -> IpAddr {
        let address = Ipv6Addr::from(self.0);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    }
}

/// Whether a GID is on the list. An empty list allows all.
pub fn allowed(gid: &Gid, allowed: &[Gid]) -> bool {
    allowed.is_empty() || allowed.contains(gid)
}

/// Parses a GID as displayed; an IPv4 address means its IPv4-mapped GID.
impl FromStr for Gid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let address = text.parse::<IpAddr>().map_err(|_| {
            let fix = "use the format of `wirelane devices`, such as ::ffff:10.0.0.1";
            Error::new(ErrorKind::Misuse, format!("parse {text:?}"), "not a GID", fix)
        })?;
        Ok(Gid(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }))
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

/// The packet format used with a GID.
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

    /// The name that ibv_devinfo and sysfs use.
    pub fn name(self) -> &'static str {
        match self {
            GidType::Ib => "IB",
            GidType::RoceV1 => "RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        }
    }
}

/// A used entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GidEntry {
    /// Its index in the table, as in `rdma_gid_index`.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// Absent if the library does not report it (before rdma-core 32).
    #[serde(rename = "type")]
    pub kind: Option<GidType>,
    /// Its net device; absent on InfiniBand, or if the library does not report it.
    pub netdev: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_mapped_gid_is_displayed_as_such() {
        let mut raw = [0; 16];
        raw[10..].copy_from_slice(&[0xff, 0xff, 10, 77, 0, 1]);
        assert_eq!(Gid(raw).to_string(), "::ffff:10.77.0.1");
        assert!(!Gid(raw).is_empty());
    }

    #[test]
    fn a_gid_parses_as_displayed() {
        for text in ["::ffff:10.77.0.1", "fe80::ccc2:a7ff:fe25:d8c4", "::"] {
            assert_eq!(text.parse::<Gid>().expect("a GID").to_string(), text);
        }
        assert_eq!("10.77.0.1".parse::<Gid>(), "::ffff:10.77.0.1".parse());
        for text in ["", "rxe0", "10.77.0", "fe80::1%eth0", " ::1"] {
            let error = text.parse::<Gid>().unwrap_err();
            assert!(error.to_string().contains("not a GID"), "{error}");
        }
    }

    #[test]
    fn an_empty_list_allows_all_gids() {
        let [a, b] = ["10.0.0.1", "fe80::1"].map(|text| text.parse::<Gid>().expect("a GID"));
        assert!(allowed(&a, &[]) && allowed(&a, &[b, a]) && !allowed(&a, &[b]));
    }

    #[test]
    fn unused_entries_are_recognized() {
        assert!(Gid([0; 16]).is_empty());
        let mut bare_prefix = [0; 16];
        bare_prefix[..2].copy_from_slice(&[0xfe, 0x80]);
        assert!(Gid(bare_prefix).is_empty());
    }
}
