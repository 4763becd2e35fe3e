//! Connections and listeners of the RDMA connection manager, from netlink (RDMA_NL_NLDEV).
//!
//! They are read on request and not stored in snapshots: they contain other hosts' addresses.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::netlink::{self, Socket, Want};
use super::rdma;

/// One end of a connection, or a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CmId {
    /// The RDMA device.
    pub device: String,
    /// The kernel's name: `LISTEN`, `CONNECT`.
    pub state: &'static str,
    /// Its process; 0 if it belongs to the kernel.
    pub pid: u32,
    /// The kernel module that owns it.
    pub module: Option<String>,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The peer's address.
    pub peer: Option<SocketAddr>,
}

/// All of them; `None` if the kernel has no RDMA or does not answer.
pub(super) fn query() -> Option<Vec<CmId>> {
    let devices = rdma::devices(&mut Socket::rdma().ok()?)?;
    let mut found = Vec::new();
    for device in devices {
        let index = netlink::attribute(rdma::DEVICE_INDEX, &device.index.to_ne_bytes());
        // A new socket each time: after a timeout, the rest of the old answer would come first.
        let bodies = Socket::rdma()
            .and_then(|mut socket| socket.query(rdma::kind(CM_ID_GET), Want::All, &index));
        for body in bodies.unwrap_or_default() {
            found.extend(parse(&device.name, &body));
        }
    }
    Some(found)
}

/// One message: a table of entries.
fn parse(device: &str, body: &[u8]) -> Vec<CmId> {
    let table = netlink::find(body, TABLE).unwrap_or_default();
    let entry = |(_, entry): (u16, &[u8])| {
        let state = netlink::find(entry, STATE)?.first()?;
        Some(CmId {
            device: device.to_owned(),
            state: STATES.get(usize::from(*state))?,
            pid: netlink::find(entry, PID).and_then(netlink::number).unwrap_or(0),
            module: netlink::find(entry, KERNEL_NAME).and_then(netlink::text),
            local: netlink::find(entry, LOCAL).and_then(address),
            peer: netlink::find(entry, PEER).and_then(address),
        })
    };
    netlink::attributes(table).filter_map(entry).collect()
}

/// A `struct sockaddr` of the two families that have ports.
fn address(value: &[u8]) -> Option<SocketAddr> {
    let [f0, f1, p0, p1, rest @ ..] = value else { return None };
    let ip: IpAddr = match u16::from_ne_bytes([*f0, *f1]) {
        INET => (*rest.first_chunk::<4>()?).into(),
        // After the flow label.
        INET6 => (*rest.get(4..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([*p0, *p1])))
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    assert!(parse("a", body).iter().all(|id| id.device == "a"));
}

/// `enum rdma_cm_state`, with the names that `rdma` prints.
const STATES: [&str; 11] = [
    "IDLE",
    "ADDR_QUERY",
    "ADDR_RESOLVED",
    "ROUTE_QUERY",
    "ROUTE_RESOLVED",
    "CONNECT",
    "DISCONNECT",
    "ADDR_BOUND",
    "LISTEN",
    "DEVICE_REMOVAL",
    "DESTROYING",
];

const CM_ID_GET: u16 = 11;
const TABLE: u16 = 30;
const STATE: u16 = 27;
const PID: u16 = 28;
const KERNEL_NAME: u16 = 29;
const LOCAL: u16 = 33;
const PEER: u16 = 34;
const INET: u16 = 2;
const INET6: u16 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::netlink::attribute;

    #[test]
    fn a_connection_of_the_kernel_is_parsed() {
        let v4 = [&INET.to_ne_bytes()[..], &20049_u16.to_be_bytes(), &[10, 77, 0, 2], &[0; 8]];
        let entry = [
            attribute(STATE, &[5]),
            attribute(KERNEL_NAME, b"rpcrdma\0"),
            attribute(PEER, &v4.concat()),
        ];
        let body = attribute(TABLE, &attribute(31, &entry.concat()));
        let ids = parse("rxe0", &body);
        assert_eq!(ids.len(), 1);
        assert_eq!((ids[0].state, ids[0].module.as_deref()), ("CONNECT", Some("rpcrdma")));
        assert_eq!(ids[0].peer, "10.77.0.2:20049".parse().ok());
        assert_eq!((ids[0].local, ids[0].pid), (None, 0));
    }

    #[test]
    fn a_truncated_address_is_ignored() {
        let v6 = [&INET6.to_ne_bytes()[..], &[0x4e, 0x51], &[0; 4], &[0; 15], &[1]].concat();
        assert_eq!(address(&v6), "[::1]:20049".parse().ok());
        assert_eq!((address(&v6[..20]), address(&[2, 0, 1]), address(&[])), (None, None, None));
    }
}
