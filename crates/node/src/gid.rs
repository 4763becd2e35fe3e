//! GIDs and GUIDs: addresses of ports and nodes on the fabric.

use std::net::Ipv6Addr;

use serde::{Serialize, Serializer};

use crate::{Reading, Tree};

/// A permanent 64-bit identifier of a node or port: `f452:1403:007b:e0e0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guid(pub u64);

/// An entry of a port's GID table; empty entries are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its index in the table.
    pub index: u32,
    /// The address.
    pub gid: Ipv6Addr,
    /// Its protocol. EINVAL if its net device is in another network namespace.
    #[serde(rename = "type")]
    pub kind: Reading<GidType>,
    /// Its net device; none on InfiniBand.
    pub netdev: Reading<String>,
}

/// The protocol of a GID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 on Ethernet: the kernel has one name for both.
    #[serde(rename = "IB/RoCE v1")]
    IbOrRoceV1,
    /// RoCE v2: UDP port 4791.
    #[serde(rename = "RoCE v2")]
    RoceV2,
}

impl Gid {
    /// Its IPv4 address, if it contains one.
    pub fn ipv4(&self) -> Option<std::net::Ipv4Addr> {
        self.gid.to_ipv4_mapped()
    }

    /// Whether it is link-local (`fe80::/10`).
    pub fn is_link_local(&self) -> bool {
        self.gid.is_unicast_link_local()
    }
}

impl GidType {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            GidType::IbOrRoceV1 => "IB/RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [GidType::IbOrRoceV1, GidType::RoceV2].into_iter().find(|kind| kind.name() == text)
    }
}

impl Guid {
    /// Whether none was assigned: some functions then cannot register memory.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split(':').collect();
        let right = groups.len() == 4 && groups.iter().all(|group| group.len() == 4);
        let hex = right.then(|| groups.concat())?;
        u64::from_str_radix(&hex, 16).ok().map(Guid)
    }
}

impl std::fmt::Display for Guid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (self.0 >> shift) & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A port's GID table: the entries that are not empty, and the number of all entries.
///
/// A table has up to 256 entries, most of them empty: type and net device are read only for the others.
pub(crate) fn read_table(tree: &Tree, port: &str) -> (Vec<Gid>, u32) {
    let indices: Vec<u32> =
        tree.list(&format!("{port}/gids")).iter().filter_map(|name| name.parse().ok()).collect();
    let gids = indices.iter().filter_map(|index| read_entry(tree, port, *index)).collect();
    (gids, indices.len().try_into().unwrap_or(u32::MAX))
}

fn read_entry(tree: &Tree, port: &str, index: u32) -> Option<Gid> {
    let gid = tree.text(&format!("{port}/gids/{index}")).parse(parse_gid).into_value()?;
    if is_empty(gid) {
        return None;
    }
    let attribute = |name: &str| tree.text(&format!("{port}/gid_attrs/{name}/{index}"));
    let netdev =
        attribute("ndevs").parse(|name| crate::name::is_name(name).then(|| name.to_owned()));
    Some(Gid { index, gid, kind: attribute("types").parse(GidType::parse), netdev })
}

/// Reads `fe80:0000:0000:0000:0002:c903:00f9:bfa1`.
fn parse_gid(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok()
}

/// Zero, or a subnet prefix without an interface ID.
fn is_empty(gid: Ipv6Addr) -> bool {
    let [prefix @ .., e, f, g, h] = gid.segments();
    let no_interface = [e, f, g, h] == [0; 4];
    no_interface && (prefix == [0; 4] || prefix == [0xfe80, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_entries_are_recognized() {
        let empty = |text| parse_gid(text).map(is_empty);
        assert_eq!(empty("0000:0000:0000:0000:0000:0000:0000:0000"), Some(true));
        assert_eq!(empty("fe80:0000:0000:0000:0000:0000:0000:0000"), Some(true));
        assert_eq!(empty("fe80:0000:0000:0000:0002:c903:00f9:bfa1"), Some(false));
        assert_eq!(empty("0000:0000:0000:0000:0000:ffff:c800:d106"), Some(false));
        assert_eq!(empty("2001:0db8:0000:0000:0000:0000:0000:0000"), Some(false));
        assert_eq!(empty("fe80"), None);
    }

    #[test]
    fn guids_are_parsed_and_formatted() {
        assert_eq!(Guid::parse("f452:1403:007b:e0e0"), Some(Guid(0xf452_1403_007b_e0e0)));
        assert_eq!(Guid(0xf452_1403_007b_e0e0).to_string(), "f452:1403:007b:e0e0");
        for wrong in ["", "f452:1403:007b", "f452:1403:007b:zzzz", "f4521403:007b:e0e0"] {
            assert_eq!(Guid::parse(wrong), None, "{wrong}");
        }
    }
}
