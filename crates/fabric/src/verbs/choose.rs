//! Which device, port, GID and MTU to use, by rule, with the reason for each.
//!
//! A pure function of what the devices said and what the user wishes: nothing is asked here.

use std::fmt;
use std::net::Ipv6Addr;

use serde::Serialize;

use super::device::Device;
use super::gid::{GidEntry, GidType};
use super::port::{LinkLayer, Port, PortState};

/// What the user wants; `None` is "choose".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
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
    /// Bytes: the wish, lowered to what the port has.
    pub mtu: u32,
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

/// Chooses. The fastest active port wins, the first listed among equals.
pub fn choose(devices: &[Device], wish: &Wish) -> Result<Choice, Refusal> {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    for device in devices.iter().filter(|device| wanted(device, wish)) {
        match ports(device, wish) {
            Ok(ports) => {
                candidates.extend(ports.into_iter().map(|port| Candidate { device, port }));
            }
            Err(why) => refused.push(format!("{}: {why}", device.name)),
        }
    }
    if candidates.is_empty() && refused.is_empty() {
        return Err(no_such_device(devices, wish));
    }
    let best = candidates.iter().rev().max_by_key(|candidate| candidate.port.rate_mbps());
    let best = best.ok_or_else(|| Refusal(refused.join("; ")))?;
    best.choice(wish, candidates.len())
}

fn wanted(device: &Device, wish: &Wish) -> bool {
    wish.device.as_ref().is_none_or(|name| *name == device.name)
}

fn no_such_device(devices: &[Device], wish: &Wish) -> Refusal {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    Refusal(match &wish.device {
        Some(name) => format!(
            "there is no device {name}; there is {}. Set rdma_device to one of them, or to \"\"",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ),
        None => "there is no RDMA device".to_owned(),
    })
}

/// The active ports that the wish allows, or why there is none.
fn ports<'d>(device: &'d Device, wish: &Wish) -> Result<Vec<&'d Port>, String> {
    if device.transport == "iWARP" {
        return Err("iWARP devices are not supported: they connect by the RDMA CM only, and have \
                    neither write with immediate nor atomics"
            .to_owned());
    }
    let facts = device.facts.as_ref().map_err(ToString::to_string)?;
    let wished: Vec<&Port> =
        facts.ports.iter().filter(|port| wish.port.is_none_or(|n| n == port.port)).collect();
    if let (Some(port), []) = (wish.port, &wished[..]) {
        let count = facts.ports.len();
        return Err(format!("it has no port {port}, only {count}. Set rdma_port to 0 to choose"));
    }
    let (active, idle): (Vec<&Port>, Vec<&Port>) =
        wished.into_iter().partition(|port| port.state == PortState::Active);
    if active.is_empty() {
        let state = |port: &&Port| format!("port {} is {}", port.port, port.state.name());
        return Err(idle.iter().map(state).collect::<Vec<_>>().join(", "));
    }
    Ok(active)
}

struct Candidate<'d> {
    device: &'d Device,
    port: &'d Port,
}

impl Candidate<'_> {
    fn choice(&self, wish: &Wish, of: usize) -> Result<Choice, Refusal> {
        let (gid, gid_why) = self.gid(wish)?;
        let mtu = wish.mtu.min(self.port.active_mtu);
        let port_why = match (&wish.device, wish.port, of) {
            (Some(_), Some(_), _) => "as set",
            (_, _, 1) => "the only active port",
            _ => "the fastest active port, the first among equals",
        };
        let mtu_why = if mtu < wish.mtu { "all the port has" } else { "as set" };
        Ok(Choice {
            device: self.device.name.clone(),
            port: self.port.port,
            gid,
            mtu,
            why: format!("{port_why}; {gid_why}; MTU {mtu}: {mtu_why}"),
        })
    }

    fn gid(&self, wish: &Wish) -> Result<(Option<GidEntry>, String), Refusal> {
        let gids = &self.port.gids;
        if let Some(index) = wish.gid_index {
            let entry = gids.iter().find(|entry| entry.index == index);
            let entry = entry.ok_or_else(|| self.no_gid(index))?;
            return Ok((Some(entry.clone()), format!("GID {index}: as set")));
        }
        if self.port.link_layer != LinkLayer::Ethernet {
            // The first entry is the port's own; others are aliases.
            let first = gids.first().cloned();
            return Ok((first, "InfiniBand: by LID, with the port's own GID".to_owned()));
        }
        let best = gids.iter().max_by_key(|entry| rank(entry));
        let best = best.ok_or_else(|| {
            Refusal(format!(
                "{} port {} has an empty GID table: give its net device an address",
                self.device.name, self.port.port
            ))
        })?;
        Ok((Some(best.clone()), format!("GID {}: {}", best.index, description(best))))
    }

    fn no_gid(&self, index: u32) -> Refusal {
        let known: Vec<String> =
            self.port.gids.iter().map(|entry| entry.index.to_string()).collect();
        Refusal(format!(
            "{} port {} has no GID {index}; filled are {}. Set rdma_gid_index to -1 to choose",
            self.device.name,
            self.port.port,
            known.join(", ")
        ))
    }
}

/// Better entries rank higher: RoCE v2 before v1, routable before link-local, IPv4 before IPv6
/// since that is what most fabrics route. Of equals the last counts, as `max_by_key` has it: where
/// the library cannot tell types, drivers list v2 after v1.
fn rank(entry: &GidEntry) -> (u8, u8) {
    let version = match entry.kind {
        Some(GidType::RoceV2) => 2,
        None => 1,
        Some(GidType::RoceV1 | GidType::Ib) => 0,
    };
    (version, reach(entry) as u8)
}

/// How far packets with this address get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    LinkLocal,
    Ipv6,
    Ipv4,
}

fn reach(entry: &GidEntry) -> Reach {
    let address = Ipv6Addr::from(entry.gid.0);
    if address.to_ipv4_mapped().is_some() {
        Reach::Ipv4
    } else if address.is_unicast_link_local() {
        Reach::LinkLocal
    } else {
        Reach::Ipv6
    }
}

fn description(entry: &GidEntry) -> String {
    let kind = entry.kind.map_or("of unknown type", GidType::name);
    match reach(entry) {
        Reach::LinkLocal => {
            format!("{kind}, link-local: only peers on the same wire or switch are reached")
        }
        Reach::Ipv4 | Reach::Ipv6 => format!("{kind}, routable"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::{AskError, Guid};
    use super::super::gid::Gid;
    use super::*;

    const ANY: Wish = Wish { device: None, port: None, gid_index: None, mtu: 4096 };

    fn gid(index: u32, address: &str, kind: Option<GidType>) -> GidEntry {
        let address: Ipv6Addr = address.parse().expect("an address");
        GidEntry { index, gid: Gid(address.octets()), kind, netdev: None }
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
    fn wishes_are_granted_or_refused_by_name() {
        let cards = [
            device("a", vec![port(1, PortState::Active, 4)]),
            device("b", vec![port(1, PortState::Active, 1), port(2, PortState::Down, 1)]),
        ];
        let wish = |device: &str, port, gid_index| {
            let device = Some(device.to_owned());
            choose(&cards, &Wish { device, port, gid_index, mtu: 1024 })
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
    fn infiniband_goes_by_lid() {
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
        let mut denied = device("mlx5_0", vec![]);
        denied.facts = Err(AskError::absent_example());
        let refusal = choose(&[iwarp, denied], &ANY).expect_err("refused").to_string();
        assert!(refusal.contains("i40iw0: iWARP devices are not supported"), "{refusal}");
        assert!(refusal.contains("mlx5_0: cannot open /dev/infiniband/"), "{refusal}");
    }
}
