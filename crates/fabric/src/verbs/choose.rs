//! Which device, port, GID and MTU to use, by rule, with the reason for each.
//!
//! A pure function of what the devices said and what the user wishes: nothing is asked here.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::device::Device;
use super::gid::{Gid, GidEntry, GidType};
use super::port::{LinkLayer, Port, PortState};

/// What the user wants; `None` is "choose".
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

/// What to use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// Its GID; absent on InfiniBand ports with an empty table, which go by LID.
    pub gid: Option<GidEntry>,
    /// What the port's cable carries.
    pub link_layer: LinkLayer,
    /// Bytes: the wish, lowered to what the port has.
    pub mtu: u32,
    /// Megabits a second, all lanes together; 0 where the driver does not say.
    pub rate_mbps: u64,
    /// Why each, in words.
    pub why: String,
}

/// Why nothing can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Chooses among the active ports whose GIDs allow the wish: the one whose packets get furthest wins,
/// then the fastest, then the first listed.
pub fn choose(devices: &[Device], wish: &DeviceRequest) -> Result<Choice, Refusal> {
    let (usable, refused) = candidates(devices, wish);
    usable.into_iter().next().ok_or_else(|| Refusal(refused.join("; ")))
}

/// Every port that could be used, the best first, and in words why each of the others could not.
pub fn candidates(devices: &[Device], wish: &DeviceRequest) -> (Vec<Choice>, Vec<String>) {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    for device in devices.iter().filter(|device| wanted(device, wish)) {
        let ports = ports(device, wish).unwrap_or_else(|why| {
            refused.push(format!("{}: {why}", device.name));
            Vec::new()
        });
        for port in ports {
            match Candidate::new(device, port, wish) {
                Ok(candidate) => candidates.push(candidate),
                Err(why) => refused.push(format!("{}: port {} {why}", device.name, port.port)),
            }
        }
    }
    if candidates.is_empty() && refused.is_empty() {
        refused.push(no_such_device(devices, wish));
    }
    // Of equals the first listed stays first.
    candidates.sort_by_key(|candidate| Reverse(candidate.merit()));
    let of = candidates.len();
    let choices = (1..).zip(&candidates).map(|(place, one)| one.choice(wish, place, of));
    (choices.collect(), refused)
}

fn wanted(device: &Device, wish: &DeviceRequest) -> bool {
    wish.device.as_ref().is_none_or(|name| *name == device.name)
}

fn no_such_device(devices: &[Device], wish: &DeviceRequest) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    match &wish.device {
        Some(name) => format!(
            "there is no device {name}; there is {}. Set rdma_device to one of them, or to \"\"",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ),
        None => "there is no RDMA device".to_owned(),
    }
}

/// The ports that the wish allows, or why there is none.
fn ports<'d>(device: &'d Device, wish: &DeviceRequest) -> Result<Vec<&'d Port>, String> {
    device.supported()?;
    let facts = device.facts.as_ref().map_err(ToString::to_string)?;
    let wished: Vec<&Port> =
        facts.ports.iter().filter(|port| wish.port.is_none_or(|n| n == port.port)).collect();
    if let (Some(port), []) = (wish.port, &wished[..]) {
        let count = facts.ports.len();
        return Err(format!("it has no port {port}, only {count}. Set rdma_port to 0 to choose"));
    }
    if wished.is_empty() { Err("it has no port".to_owned()) } else { Ok(wished) }
}

/// A port that could be used, with the GID it would use.
struct Candidate<'d> {
    device: &'d Device,
    port: &'d Port,
    gid: Option<&'d GidEntry>,
    gid_why: String,
}

impl<'d> Candidate<'d> {
    fn new(device: &'d Device, port: &'d Port, wish: &DeviceRequest) -> Result<Self, String> {
        if port.state != PortState::Active {
            return Err(format!("is {}", port.state.name()));
        }
        let (gid, gid_why) = gid(port, wish)?;
        Ok(Candidate { device, port, gid, gid_why })
    }

    /// What is better ranks higher. An InfiniBand port reaches its whole fabric by LID.
    fn merit(&self) -> (Reach, u64) {
        let ethernet = self.gid.filter(|_| self.port.link_layer == LinkLayer::Ethernet);
        (ethernet.map_or(Reach::Ipv4, |entry| reach(entry.gid)), self.port.rate_mbps())
    }

    /// As the one in this place of so many, counted from 1.
    fn choice(&self, wish: &DeviceRequest, place: usize, of: usize) -> Choice {
        let mtu = wish.mtu.min(self.port.active_mtu);
        let merit = "reaches furthest, then the fastest, then the first";
        let port_why = match (&wish.device, wish.port, of, place) {
            (Some(_), Some(_), ..) => "as set".to_owned(),
            (_, _, 1, _) => "the only port that can be used as set".to_owned(),
            (.., 1) => format!("of several ports the one that {merit}"),
            _ => format!("of {of} ports number {place} by what {merit}"),
        };
        let mtu_why = if mtu < wish.mtu { "all the port has" } else { "as set" };
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
fn gid<'p>(port: &'p Port, wish: &DeviceRequest) -> Result<(Option<&'p GidEntry>, String), String> {
    if let Some(index) = wish.gid_index {
        let entry = port.gids.iter().find(|entry| entry.index == index);
        let entry = entry.ok_or_else(|| no_gid(port, index))?;
        return Ok((Some(entry), format!("GID {index}: as set")));
    }
    match port.link_layer {
        // The first entry is the port's own; others are aliases.
        LinkLayer::InfiniBand => {
            let why = "InfiniBand: by LID, with the port's own GID".to_owned();
            Ok((port.gids.first(), why))
        }
        LinkLayer::Ethernet => {
            let nameable = port.gids.iter().filter(|entry| entry.index <= MAX_INDEX);
            let best = nameable.max_by_key(|entry| rank(entry));
            let best = best.ok_or("has an empty GID table: give its net device an address")?;
            Ok((Some(best), format!("GID {}: {}", best.index, description(best))))
        }
        LinkLayer::Unknown => Err("has an unknown link layer".to_owned()),
    }
}

fn no_gid(port: &Port, index: u32) -> String {
    let known: Vec<String> = port.gids.iter().map(|entry| entry.index.to_string()).collect();
    let known = known.join(", ");
    format!("has no GID {index}; filled are {known}. Set rdma_gid_index to -1 to choose")
}

/// An address handle has eight bits for the index.
const MAX_INDEX: u32 = 255;

/// Better entries rank higher: RoCE v2 before v1, further before nearer. Of equals the first counts,
/// so that an address added later does not move the choice; but where the library cannot tell types
/// the last does, since drivers list v2 after v1.
fn rank(entry: &GidEntry) -> (u8, Reach, i64) {
    let index = i64::from(entry.index);
    match entry.kind {
        Some(GidType::RoceV2) => (2, reach(entry.gid), -index),
        None => (1, reach(entry.gid), index),
        Some(GidType::RoceV1 | GidType::Ib) => (0, reach(entry.gid), -index),
    }
}

/// How far packets with this address get, nearest first. IPv4 is what most fabrics route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Link,
    Ipv6,
    Ipv4,
}

pub(super) fn reach(gid: Gid) -> Reach {
    match gid.ip() {
        IpAddr::V4(ipv4) if ipv4.is_link_local() || ipv4.is_loopback() => Reach::Link,
        IpAddr::V4(_) => Reach::Ipv4,
        IpAddr::V6(ipv6) if ipv6.is_unicast_link_local() => Reach::Link,
        IpAddr::V6(_) => Reach::Ipv6,
    }
}

fn description(entry: &GidEntry) -> String {
    let kind = entry.kind.map_or("of unknown type", GidType::name);
    match (entry.kind, reach(entry.gid)) {
        (Some(GidType::RoceV1), _) => {
            format!("{kind}: only peers on the same Ethernet are reached")
        }
        (_, Reach::Link) => {
            format!("{kind}, link-local: only peers on the same Ethernet are reached")
        }
        (_, Reach::Ipv4 | Reach::Ipv6) => format!("{kind}, routable"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{AskError, Guid};
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
    fn the_cable_on_port_2_and_the_routable_roce_v2_gid_are_found() {
        let card =
            device("mlx4_0", vec![port(1, PortState::Down, 4), port(2, PortState::Active, 4)]);
        let choice = choose(&[card], &ANY).expect("a choice");
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
    fn every_usable_port_is_a_candidate_and_every_other_is_explained() {
        let mut bare = port(2, PortState::Active, 4);
        bare.gids.clear();
        let cards = [
            device("slow", vec![port(1, PortState::Active, 1), port(2, PortState::Down, 4)]),
            device("fast", vec![port(1, PortState::Active, 4), bare]),
            device("same", vec![port(1, PortState::Active, 4)]),
            device("none", vec![]),
        ];
        let (choices, refused) = candidates(&cards, &ANY);
        let names: Vec<&str> = choices.iter().map(|choice| choice.device.as_str()).collect();
        assert_eq!(names, ["fast", "same", "slow"]);
        assert_eq!(choices[0], choose(&cards, &ANY).expect("a choice"));
        assert_eq!((choices[2].rate_mbps, choices[2].link_layer), (25_000, LinkLayer::Ethernet));
        let why = "of 3 ports number 2 by what reaches furthest, then the fastest, then the first; \
                   GID 3: RoCE v2, routable; MTU 4096: as set";
        assert_eq!(choices[1].why, why);
        let expected = [
            "slow: port 2 is DOWN",
            "fast: port 2 has an empty GID table: give its net device an address",
            "none: it has no port",
        ];
        assert_eq!(refused, expected);
        let elsewhere = DeviceRequest { device: Some("no".to_owned()), ..ANY };
        let (choices, refused) = candidates(&cards, &elsewhere);
        assert!(choices.is_empty() && refused[0].starts_with("there is no device no; there is"));
    }

    #[test]
    fn wishes_are_granted_or_refused_by_name() {
        let cards = [
            device("a", vec![port(1, PortState::Active, 4)]),
            device("b", vec![port(1, PortState::Active, 1), port(2, PortState::Down, 1)]),
        ];
        let wish = |device: &str, port, gid_index| {
            let device = Some(device.to_owned());
            choose(&cards, &DeviceRequest { device, port, gid_index, mtu: 1024 })
        };
        let choice = wish("b", Some(1), Some(2)).expect("a choice");
        assert_eq!((choice.device.as_str(), choice.port, choice.mtu), ("b", 1, 1024));
        assert_eq!(choice.gid.map(|gid| gid.index), Some(2));
        let refused = |device, port, gid| wish(device, port, gid).expect_err("refused").to_string();
        assert!(refused("c", None, None).contains("there is a, b"));
        assert!(refused("b", Some(2), None).contains("port 2 is DOWN"));
        assert!(refused("b", Some(3), None).contains("no port 3"));
        assert!(refused("a", None, Some(4)).contains("filled are 0, 1, 2, 3, 5"));
    }

    #[test]
    fn an_address_added_later_does_not_move_the_choice() {
        let mut grown = port(1, PortState::Active, 4);
        grown.gids.push(gid(7, "::ffff:10.9.9.9", Some(GidType::RoceV2)));
        grown.gids.push(gid(301, "::ffff:10.0.0.9", Some(GidType::RoceV2)));
        let choice = choose(&[device("a", vec![grown])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(3));
    }

    #[test]
    fn the_port_with_an_address_beats_the_one_without() {
        let mut bare = port(1, PortState::Active, 4);
        bare.gids.truncate(2);
        let mut empty = port(1, PortState::Active, 4);
        empty.gids.clear();
        let cards = [
            device("a", vec![bare]),
            device("b", vec![empty]),
            device("c", vec![port(1, PortState::Active, 1)]),
        ];
        assert_eq!(choose(&cards, &ANY).expect("a choice").device, "c");
        let third = DeviceRequest { gid_index: Some(3), ..ANY };
        assert_eq!(choose(&cards, &third).expect("a choice").device, "c");
    }

    #[test]
    fn what_no_router_forwards_is_not_called_routable() {
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
    fn without_types_the_later_entry_of_the_best_address_is_taken() {
        let mut old = port(1, PortState::Active, 4);
        for gid in &mut old.gids {
            gid.kind = None;
        }
        let choice = choose(&[device("a", vec![old])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(3));
    }

    #[test]
    fn an_ipv6_only_fabric_gets_its_global_address() {
        let mut ipv6 = port(1, PortState::Active, 4);
        ipv6.gids.retain(|gid| gid.index != 2 && gid.index != 3);
        let choice = choose(&[device("a", vec![ipv6])], &ANY).expect("a choice");
        assert_eq!(choice.gid.map(|gid| gid.index), Some(5));
    }

    #[test]
    fn the_mtu_is_lowered_to_the_ports() {
        let mut small = port(1, PortState::Active, 4);
        small.active_mtu = 1024;
        let choice = choose(&[device("a", vec![small])], &ANY).expect("a choice");
        assert_eq!(choice.mtu, 1024);
        assert!(choice.why.ends_with("MTU 1024: all the port has"), "{}", choice.why);
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
        denied.facts = Err(AskError::absent_example());
        let refusal = choose(&[iwarp, efa, denied], &ANY).expect_err("refused").to_string();
        assert!(refusal.contains("i40iw0: iWARP devices are not supported"), "{refusal}");
        assert!(refusal.contains("rdmap0s6: it has no reliable connections"), "{refusal}");
        assert!(refusal.contains("mlx5_0: cannot open /dev/infiniband/"), "{refusal}");
    }
}
