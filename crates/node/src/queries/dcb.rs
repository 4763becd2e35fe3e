//! Flow control per priority, from DCB netlink.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Interface;
use super::netlink::{self, Socket, Want};

/// A net device's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dcb {
    /// Priorities with PFC, one bit each.
    pub pfc_enabled: Option<u8>,
    /// The number of priorities that can have PFC.
    pub pfc_capacity: Option<u8>,
    /// The source of a packet's priority: `pcp` or `dscp`.
    pub trust: Option<String>,
    /// Priorities by DSCP, as far as the table has them.
    pub dscp_to_priority: BTreeMap<u8, u8>,
}

/// The settings of those net devices whose driver has them.
pub(super) fn query(netdevs: &[Interface]) -> Option<BTreeMap<String, Dcb>> {
    let mut socket = Socket::route().ok()?;
    let mut all = BTreeMap::new();
    for netdev in netdevs {
        let name = netlink::attribute(NAME, &[netdev.name.as_bytes(), &[0]].concat());
        let request = [&[0, IEEE_GET, 0, 0], &name[..]].concat();
        let answers = socket.query(GET_DCB, Want::One, &request).unwrap_or_default();
        if let Some(dcb) = answers.iter().find_map(|body| parse(body)) {
            all.insert(netdev.name.clone(), dcb);
        }
    }
    Some(all)
}

fn parse(body: &[u8]) -> Option<Dcb> {
    let ieee = netlink::find(body.get(HEADER..)?, IEEE)?;
    let pfc = netlink::find(ieee, PFC);
    let table = netlink::find(ieee, APPLICATIONS);
    let dscp_to_priority: BTreeMap<u8, u8> = netlink::attributes(table.unwrap_or_default())
        .filter_map(|(_, entry)| match *entry.first_chunk()? {
            [BY_DSCP, priority, low, high] => {
                Some((u8::try_from(u16::from_ne_bytes([low, high])).ok()?, priority))
            }
            _ => None,
        })
        .collect();
    // Drivers use DSCP if the table has a row for it, else the VLAN's priority.
    let trust = if dscp_to_priority.is_empty() { "pcp" } else { "dscp" };
    Some(Dcb {
        pfc_capacity: pfc.and_then(|pfc| pfc.first().copied()),
        pfc_enabled: pfc.and_then(|pfc| pfc.get(1).copied()),
        trust: table.map(|_| trust.to_owned()),
        dscp_to_priority,
    })
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    parse(body);
}

const GET_DCB: u16 = 78;
const IEEE_GET: u8 = 21;
const HEADER: usize = 4;
const NAME: u16 = 1;
const IEEE: u16 = 13;
const PFC: u16 = 2;
const APPLICATIONS: u16 = 3;
const BY_DSCP: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::netlink::attribute;

    #[test]
    fn pfc_on_priority_three_and_dscp_26_to_it() {
        let [low, high] = 26u16.to_ne_bytes();
        let table = attribute(APPLICATIONS, &attribute(1, &[BY_DSCP, 3, low, high]));
        let ieee = [attribute(PFC, &[8, 1 << 3, 0, 0]), table].concat();
        let body = [vec![0, IEEE_GET, 0, 0], attribute(IEEE, &ieee)].concat();
        let dcb = parse(&body).expect("settings");
        assert_eq!((dcb.pfc_capacity, dcb.pfc_enabled), (Some(8), Some(0b1000)));
        assert_eq!((dcb.trust.as_deref(), dcb.dscp_to_priority[&26]), (Some("dscp"), 3));
    }
}
