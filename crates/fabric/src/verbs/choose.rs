//! Which device, port, GID and MTU to use, by rule, with the reason for each.
//!
//! A pure function of the devices' attributes and the user's request: no device is queried here.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::device::Device;
use super::gid::{Gid, GidEntry, GidType};
use super::port::{LinkLayer, Port, PortState};

/// The user's settings; `None` means "choose automatically".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// A device's name.
    pub device: Option<String>,
    /// A port's number.
    pub port: Option<u8>,
    /// An index of the GID table.
    pub gid_index: Option<u32>,
    /// The largest packet payload in bytes.
    pub mtu: u32,
}

/// The chosen device, port and GID.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// Its GID; absent on InfiniBand ports with an empty table, which use the LID.
    pub gid: Option<GidEntry>,
    /// The port's link layer.
    pub link_layer: LinkLayer,
    /// Bytes: as requested, but at most the port's active MTU.
    pub mtu: u32,
    /// Megabits per second, over the whole link width; 0 if the driver does not report it.
    pub rate_mbps: u64,
    /// The reasons for port, GID and MTU.
    pub why: String,
}

/// Why no port can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Chooses among the active ports that match the request: the one with the widest address scope,
/// then the fastest, then the first listed.
pub fn choose(devices: &[Device], request: &DeviceRequest) -> Result<Choice, Refusal> {
    let (usable, refused) = candidates(devices, request);
    usable.into_iter().next().ok_or_else(|| Refusal(refused.join("; ")))
}

/// Every usable port, the best first, and for each other port the reason why it is not usable.
pub fn candidates(devices: &[Device], request: &DeviceRequest) -> (Vec<Choice>, Vec<String>) {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    for device in devices.iter().filter(|device| matches_name(device, request)) {
        let ports = ports(device, request).unwrap_or_else(|why| {
            refused.push(format!("{}: {why}", device.name));
            Vec::new()
        });
        for port in ports {
            match Candidate::new(device, port, request) {
                Ok(candidate) => candidates.push(candidate),
                Err(why) => refused.push(format!("{}: port {} {why}", device.name, port.port)),
            }
        }
    }
    if candidates.is_empty() && refused.is_empty() {
        refused.push(no_such_device(devices, request));
    }
    // The sort is stable: of equals the first listed stays first.
    candidates.sort_by_key(|candidate| Reverse(candidate.preference()));
    let count = candidates.len();
    let choices = (1..).zip(&candidates).map(|(rank, one)| one.choice(request, rank, count));
    (choices.collect(), refused)
}

fn matches_name(device: &Device, request: &DeviceRequest) -> bool {
    request.device.as_ref().is_none_or(|name| *name == device.name)
}

fn no_such_device(devices: &[Device], request: &DeviceRequest) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    match &request.device {
        Some(name) => format!(
            "no RDMA device {name}; available: {} — set rdma_device to one of these, or to \"\" to \
             choose automatically",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ),
        None => "no RDMA device".to_owned(),
    }
}

/// The ports that match the request, or why there is none.
fn ports<'d>(device: &'d Device, request: &DeviceRequest) -> Result<Vec<&'d Port>, String> {
    device.supported()?;
    let facts = device.facts.as_ref().map_err(ToString::to_string)?;
    let requested: Vec<&Port> =
        facts.ports.iter().filter(|port| request.port.is_none_or(|n| n == port.port)).collect();
    if let (Some(port), []) = (request.port, &requested[..]) {
        let count = facts.ports.len();
        return Err(format!(
            "no port {port}, it has {count} — set rdma_port to 0 to choose automatically"
        ));
    }
    if requested.is_empty() { Err("it has no port".to_owned()) } else { Ok(requested) }
}

/// A usable port, with the GID it would use.
struct Candidate<'d> {
    device: &'d Device,
    port: &'d Port,
    gid: Option<&'d GidEntry>,
    gid_why: String,
}

impl<'d> Candidate<'d> {
    fn new(device: &'d Device, port: &'d Port, request: &DeviceRequest) -> Result<Self, String> {
        if port.state != PortState::Active {
            return Err(format!("is {}", port.state.name()));
        }
        let (gid, gid_why) = gid(port, request)?;
        Ok(Candidate { device, port, gid, gid_why })
    }

    /// Better ports compare greater. An InfiniBand port reaches its whole fabric by LID.
    fn preference(&self) -> (AddressScope, u64) {
        let ethernet = self.gid.filter(|_| self.port.link_layer == LinkLayer::Ethernet);
        let scope = ethernet.map_or(AddressScope::Ipv4, |entry| scope(entry.gid));
        (scope, self.port.rate_mbps())
    }

    /// `rank` is counted from 1, among `count` candidates.
    fn choice(&self, request: &DeviceRequest, rank: usize, count: usize) -> Choice {
        let mtu = request.mtu.min(self.port.active_mtu);
        let order = "by address scope, rate, position";
        let port_why = match (&request.device, request.port, count) {
            (Some(_), Some(_), _) => "port: as configured".to_owned(),
            (_, _, 1) => "the only usable port".to_owned(),
            _ => format!("candidate {rank} of {count}, {order}"),
        };
        let mtu_why = if mtu < request.mtu { "limited by the port" } else { "as configured" };
        Choice {
            device: self.device.name.clone(),
            port: self.port.port,
            gid: self.gid.cloned(),
            link_layer: self.port.link_layer,
            mtu,
            rate_mbps: self.port.rate_mbps(),
            why: format!("{port_why}; {}; MTU {mtu}: {mtu_why}", self.gid_why),
        }
    }
}

/// The GID that the port would use, and why; or why it cannot be used.
fn gid<'p>(
    port: &'p Port,
    request: &DeviceRequest,
) -> Result<(Option<&'p GidEntry>, String), String> {
    if let Some(index) = request.gid_index {
        let entry = port.gids.iter().find(|entry| entry.index == index);
        let entry = entry.ok_or_else(|| no_gid(port, index))?;
        return Ok((Some(entry), format!("GID {index}: as configured")));
    }
    match port.link_layer {
        // The first entry is the port's own; others are aliases.
        LinkLayer::InfiniBand => {
            let why = "InfiniBand: addressed by LID, with the port's own GID".to_owned();
            Ok((port.gids.first(), why))
        }
        LinkLayer::Ethernet => {
            let addressable = port.gids.iter().filter(|entry| entry.index <= MAX_GID_INDEX);
            let best = addressable.max_by_key(|entry| gid_preference(entry));
            let best =
                best.ok_or("has an empty GID table — assign an IP address to its net device")?;
            Ok((Some(best), format!("GID {}: {}", best.index, description(best))))
        }
        LinkLayer::Unknown => Err("has an unknown link layer".to_owned()),
    }
}

fn no_gid(port: &Port, index: u32) -> String {
    let known: Vec<String> = port.gids.iter().map(|entry| entry.index.to_string()).collect();
    let known = known.join(", ");
    format!(
        "has no GID {index}; available: {known} — set rdma_gid_index to -1 to choose automatically"
    )
}

/// An address handle has eight bits for the index.
const MAX_GID_INDEX: u32 = 255;

/// Better entries compare greater: RoCE v2 before v1, wider scope before narrower. Of equals the first is
/// preferred, so that an address added later does not change the choice; if the library does not report
/// types, the last, since drivers list v2 after v1.
fn gid_preference(entry: &GidEntry) -> (u8, AddressScope, i64) {
    let index = i64::from(entry.index);
    match entry.kind {
        Some(GidType::RoceV2) => (2, scope(entry.gid), -index),
        None => (1, scope(entry.gid), index),
        Some(GidType::RoceV1 | GidType::Ib) => (0, scope(entry.gid), -index),
    }
}

/// How far packets with this address are forwarded, the narrowest first. Most fabrics route IPv4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressScope {
    Link,
    Ipv6,
    Ipv4,
}

pub(super) fn scope(gid: Gid) -> AddressScope {
    match gid.ip() {
        IpAddr::V4(ipv4) if ipv4.is_link_local() || ipv4.is_loopback() => AddressScope::Link,
        IpAddr::V4(_) => AddressScope::Ipv4,
        IpAddr::V6(ipv6) if ipv6.is_unicast_link_local() => AddressScope::Link,
        IpAddr::V6(_) => AddressScope::Ipv6,
    }
}

fn description(entry: &GidEntry) -> String {
    let kind = entry.kind.map_or("of unknown type", GidType::name);
    match (entry.kind, scope(entry.gid)) {
        (Some(GidType::RoceV1), _) => {
            format!("{kind}: reaches peers on the same Ethernet only")
        }
        (_, AddressScope::Link) => {
            format!("{kind}, link-local: reaches peers on the same Ethernet only")
        }
        (_, AddressScope::Ipv4 | AddressScope::Ipv6) => format!("{kind}, routable"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{Guid, QueryError};
    use super::*;

    const ANY: DeviceRequest =
        DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 };

    fn gid(index: u32, address: &str, kind: Option<GidType>) -> GidEntry {
        GidEntry { index, gid: address.parse().expect("an address"), kind, netdev: None }
    }

    fn port(number: u8, state: PortState, lanes: u8) -> Port {
        let v1 = Some(GidType::RoceV1);
        let v2 = Some(GidType::RoceV2);
        Port {
            state,
            active_width: Some(lanes),
            link_layer: LinkLayer::Ethernet,
            gids: vec![
                gid(0, "fe80::1", v1),
                gid(1, "fe80::1", v2),
                gid(2, "::ffff:10.0.0.1", v1),
                gid(3, "::ffff:10.0.0.1", v2),
                gid(5, "2001:db8::1", v2),
            ],
            ..Port::example(number)
        }
    }

    fn device(name: &str, ports: Vec<Port>) -> Device {
        Device {
            name: name.to_owned(),
            transport: "InfiniBand",
            node_guid: Guid(1),
            facts: Ok(super::super::device::DeviceFacts::example(ports)),
        }
    }

    #[test]
    fn the_active_port_and_its_routable_roce_v2_gid_are_chosen() {
        let device =
            device("mlx4_0", vec![port(1, PortState::Down, 4), port(2, PortState::Active, 4)]);
        let choice = choose(&[device], &ANY).expect("a choice");
        assert_eq!((choice.port, choice.gid.map(|gid| gid.index)), (2, Some(3)));
        assert!(choice.why.contains("RoCE v2, routable"), "{}", choice.why);
    }

    #[test]
    fn the_fastest_port_wins_and_the_first_among_equals() {
        let slow = device("a", vec![port(1, PortState::Active, 1)]);
        let fast = device("b", vec![port(1, PortState::Active, 4)]);
        let same = device("c", vec![port(1, PortState::Active, 4)]);
        assert_eq!(choose(&[slow, fast, same], &ANY).expect("a choice").device, "b");
    }

    #[test]
    fn every_usable_port_is_a_candidate_and_every_other_has_a_reason() {
        let mut bare = port(2, PortState::Active, 4);
        bare.gids.clear();
        let devices = [
            device("slow", vec![port(1, PortState::Active, 1), port(2, PortState::Down, 4)]),
            device("fast", vec![port(1, PortState::Active, 4), bare]),
            device("same", vec![port(1, PortState::Active, 4)]),
            device("none", vec![]),
        ];
        let (choices, refused) = candidates(&devices, &ANY);
        let names: Vec<&str> = choices.iter().map(|choice| choice.device.as_str()).collect();
        assert_eq!(names, ["fast", "same", "slow"]);
        assert_eq!(choices[0], choose(&devices, &ANY).expect("a choice"));
        assert_eq!((choices[2].rate_mbps, choices[2].link_layer), (25_000, LinkLayer::Ethernet));
        let why = "candidate 2 of 3, by address scope, rate, position; \
                   GID 3: RoCE v2, routable; MTU 4096: as configured";
        assert_eq!(choices[1].why, why);
        let expected = [
            "slow: port 2 is DOWN",
            "fast: port 2 has an empty GID table — assign an IP address to its net device",
            "none: it has no port",
        ];
        assert_eq!(refused, expected);
        let absent = DeviceRequest { device: Some("x".to_owned()), ..ANY };
        let (choices, refused) = candidates(&devices, &absent);
        assert!(choices.is_empty() && refused[0].starts_with("no RDMA device x; available: slow"));
    }

    #[test]
    fn requests_are_met_or_refused_with_the_reason() {
        let devices = [
            device("a", vec![port(1, PortState::Active, 4)]),
            device("b", vec![port(1, PortState::Active, 1), port(2, PortState::Down, 1)]),
        ];
        let request = |device: &str, port, gid_index| {
            let device = Some(device.to_owned());
            choose(&devices, &DeviceRequest { device, port, gid_index, mtu: 1024 })
        };
        let choice = request("b", Some(1), Some(2)).expect("a choice");
        assert_eq!((choice.device.as_str(), choice.port, choice.mtu), ("b", 1, 1024));
        assert_eq!(choice.gid.map(|gid| gid.index), Some(2));
        let refused =
            |device, port, gid| request(device, port, gid).expect_err("refused").to_string();
        assert!(refused("c", None, None).contains("available: a, b"));
        assert!(refused("b", Some(2), None).contains("port 2 is DOWN"));
        assert!(refused("b", Some(3), None).contains("no port 3"));
        assert!(refused("a", None, Some(4)).contains("available: 0, 1, 2, 3, 5"));
    }

    #[test]
    fn an_address_added_later_does_not_change_the_choice() {
        let mut grown = port(1, PortState::Active, 4);
        grown.gids.push(gid(7, "::ffff:10.9.9.9", Some(GidType::RoceV2)));
        grown.gids.push(gid(301, "::ffff:10.0.0.9", Some(GidType::RoceV2)));
        let choice = choose(&[device("a", vec![grown])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(3));
    }

    #[test]
    fn a_port_with_a_routable_address_is_preferred() {
        let mut bare = port(1, PortState::Active, 4);
        bare.gids.truncate(2);
        let mut empty = port(1, PortState::Active, 4);
        empty.gids.clear();
        let devices = [
            device("a", vec![bare]),
            device("b", vec![empty]),
            device("c", vec![port(1, PortState::Active, 1)]),
        ];
        assert_eq!(choose(&devices, &ANY).expect("a choice").device, "c");
        let third = DeviceRequest { gid_index: Some(3), ..ANY };
        assert_eq!(choose(&devices, &third).expect("a choice").device, "c");
    }

    #[test]
    fn link_local_and_roce_v1_gids_are_not_routable() {
        let v2 = Some(GidType::RoceV2);
        let mut own = port(1, PortState::Active, 4);
        own.gids = vec![
            gid(0, "::ffff:169.254.3.4", v2),
            gid(1, "2001:db8::5", v2),
            gid(2, "::ffff:10.0.0.1", Some(GidType::RoceV1)),
        ];
        let choice = choose(&[device("a", vec![own])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(1));
        let v1 = gid(2, "::ffff:10.0.0.1", Some(GidType::RoceV1));
        assert!(!description(&v1).contains("routable"));
    }

    #[test]
    fn without_gid_types_the_last_entry_of_the_best_address_is_chosen() {
        let mut old = port(1, PortState::Active, 4);
        for gid in &mut old.gids {
            gid.kind = None;
        }
        let choice = choose(&[device("a", vec![old])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(3));
    }

    #[test]
    fn with_ipv6_only_the_global_address_is_chosen() {
        let mut ipv6 = port(1, PortState::Active, 4);
        ipv6.gids.retain(|gid| gid.index != 2 && gid.index != 3);
        let choice = choose(&[device("a", vec![ipv6])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(5));
    }

    #[test]
    fn the_mtu_is_limited_by_the_port() {
        let mut small = port(1, PortState::Active, 4);
        small.active_mtu = 1024;
        let choice = choose(&[device("a", vec![small])], &ANY).expect("a choice");
        assert_eq!(choice.mtu, 1024);
        assert!(choice.why.ends_with("MTU 1024: limited by the port"), "{}", choice.why);
    }

    #[test]
    fn infiniband_uses_lid() {
        let mut ib = port(1, PortState::Active, 4);
        ib.link_layer = LinkLayer::InfiniBand;
        ib.gids.truncate(1);
        let choice = choose(&[device("a", vec![ib])], &ANY).expect("a choice");
        assert!(choice.why.contains("by LID"), "{}", choice.why);
    }

    #[test]
    fn iwarp_and_unopened_devices_are_refused_with_their_reason() {
        let mut iwarp = device("i40iw0", vec![port(1, PortState::Active, 4)]);
        iwarp.transport = "iWARP";
        let mut efa = device("rdmap0s6", vec![port(1, PortState::Active, 4)]);
        efa.transport = "unspecified";
        assert!(efa.usable().is_err() && iwarp.usable().is_err());
        let mut denied = device("mlx5_0", vec![]);
        denied.facts = Err(QueryError::absent_example());
        let refusal = choose(&[iwarp, efa, denied], &ANY).expect_err("refused").to_string();
        assert!(refusal.contains("i40iw0: iWARP devices are not supported"), "{refusal}");
        assert!(refusal.contains("rdmap0s6: it has no reliable connections"), "{refusal}");
        assert!(refusal.contains("mlx5_0: cannot open /dev/infiniband/"), "{refusal}");
    }
}
