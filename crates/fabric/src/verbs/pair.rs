//! Which ports of two hosts are paired to rails: a pure function of both hosts' ports. Each host computes it
//! independently, with the same result.

use std::cmp::Reverse;

use super::choose::{AddressScope, scope};
use super::gid::{Gid, GidType};
use super::port::LinkLayer;
use super::usable_port::UsablePort;

/// A local port and a port of the peer that form a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its index in the local ports.
    pub ours: usize,
    /// Its index in the peer's ports.
    pub theirs: usize,
    /// Why these two are paired; the same text at both hosts.
    pub why: String,
    /// Bytes: the smaller of both.
    pub mtu: u32,
    /// Megabits per second of the slower port, at least 1: the rail's share of the load.
    pub weight: u64,
}

/// Pairs ports that reach each other, each at most once, at most `max` pairs, the fastest first. Also returns
/// the reason for each port that is not paired.
///
/// Ports of one InfiniBand or IP subnet reach each other if they use the same RoCE version. If no two ports
/// share a subnet, ports with routable addresses are paired. A link-local address does not identify the
/// network: two are paired only if there is no other pair and each host has exactly one. Of equals, ports of the
/// same name are paired, since rails are often cabled that way.
pub fn pair(ours: &[UsablePort], theirs: &[UsablePort], max: usize) -> (Vec<Pair>, Vec<String>) {
    let matches = [same_subnet as Rule, routed]
        .map(|rule| matching(ours, theirs, rule))
        .into_iter()
        .find(|pairs| !pairs.is_empty())
        .unwrap_or_else(|| unambiguous(matching(ours, theirs, link_local)));
    let pairs = one_to_one(&matches, max);
    let unpaired =
        |side: &str, ports: &[UsablePort], others: &[UsablePort], index: fn(&Pair) -> usize| {
            let has_port = |pairs: &[Pair], at: usize| pairs.iter().any(|pair| index(pair) == at);
            let unpaired = (0..ports.len()).filter(|at| !has_port(&pairs, *at));
            let why = |at| match has_port(&matches, at) {
                true if pairs.len() == max => format!("not used: rail limit {max} reached"),
                true => "all ports that it reaches are already paired".to_owned(),
                false => unpaired_reason(&ports[at], others),
            };
            unpaired.map(|at| format!("{side} {}: {}", ports[at], why(at))).collect::<Vec<_>>()
        };
    let unpaired = [
        unpaired("local", ours, theirs, |one| one.ours),
        unpaired("peer's", theirs, ours, |one| one.theirs),
    ];
    (pairs, unpaired.concat())
}

/// Why two ports can be paired, or `None`; symmetric.
type Rule = fn(&UsablePort, &UsablePort) -> Option<String>;

/// All pairs that the rule allows, the best first. The order is the same from both sides. If a port is
/// on both sides, neither of two mirrored pairs is ever chosen, since its pair with itself precedes them.
fn matching(ours: &[UsablePort], theirs: &[UsablePort], rule: Rule) -> Vec<Pair> {
    let all = (0..ours.len()).flat_map(|ours| (0..theirs.len()).map(move |theirs| (ours, theirs)));
    let apply = |(at, to): (usize, usize)| {
        let (a, b) = (&ours[at], &theirs[to]);
        let (mtu, weight) = (a.mtu.min(b.mtu), a.rate_mbps.min(b.rate_mbps).max(1));
        rule(a, b).map(|why| Pair { ours: at, theirs: to, why, mtu, weight })
    };
    let mut pairs: Vec<Pair> = all.filter_map(apply).collect();
    pairs.sort_by_key(|pair| {
        let [a, b] = [&ours[pair.ours], &theirs[pair.theirs]].map(|port| (port.gid.0, name(port)));
        (Reverse(pair.weight), a.1 != b.1, a.min(b), a.max(b))
    });
    pairs
}

fn name(port: &UsablePort) -> (&str, u8) {
    (&port.device, port.port)
}

/// The pairs whose ports are in no other pair.
fn unambiguous(pairs: Vec<Pair>) -> Vec<Pair> {
    let once = |one: &&Pair| {
        let shares_a_port = |other: &&Pair| other.ours == one.ours || other.theirs == one.theirs;
        pairs.iter().filter(shares_a_port).count() == 1
    };
    pairs.iter().filter(once).cloned().collect()
}

/// The best pairs, each port in at most one.
fn one_to_one(matches: &[Pair], max: usize) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for one in matches {
        let free = pairs.iter().all(|pair| pair.ours != one.ours && pair.theirs != one.theirs);
        if free && pairs.len() < max {
            pairs.push(one.clone());
        }
    }
    pairs
}

/// Two ports of one subnet.
fn same_subnet(a: &UsablePort, b: &UsablePort) -> Option<String> {
    match a.link_layer {
        _ if !are_compatible(a, b) => None,
        LinkLayer::InfiniBand => {
            let subnet = infiniband_subnet(a);
            (subnet == infiniband_subnet(b)).then(|| format!("same InfiniBand subnet {subnet}"))
        }
        LinkLayer::Ethernet => {
            let is_routable = |port: &UsablePort| scope(port.gid) != AddressScope::Link;
            let subnet = a.shared_subnet(b)?;
            // A port always reaches itself.
            ((is_routable(a) && is_routable(b)) || a.gid == b.gid)
                .then(|| format!("same subnet {subnet}"))
        }
        LinkLayer::Unknown => None,
    }
}

/// Two ports with routable addresses.
fn routed(a: &UsablePort, b: &UsablePort) -> Option<String> {
    let is_routable = |port: &UsablePort| {
        let version = port.gid_type.unwrap_or(GidType::RoceV2);
        version == GidType::RoceV2 && scope(port.gid) != AddressScope::Link
    };
    let both =
        is_ethernet(a, b) && is_routable(a) && is_routable(b) && scope(a.gid) == scope(b.gid);
    both.then(|| "routed".to_owned())
}

/// Two ports with link-local addresses, which may be on one Ethernet.
fn link_local(a: &UsablePort, b: &UsablePort) -> Option<String> {
    let local = |port: &UsablePort| scope(port.gid) == AddressScope::Link && !port.gid.is_empty();
    let family = |port: &UsablePort| port.gid.ip().is_ipv4();
    let both = is_ethernet(a, b) && local(a) && local(b) && family(a) == family(b);
    both.then(|| "link-local, the only pair: assumed to be on the same Ethernet".to_owned())
}

fn is_ethernet(a: &UsablePort, b: &UsablePort) -> bool {
    are_compatible(a, b) && a.link_layer == LinkLayer::Ethernet
}

/// Whether they use the same link layer and RoCE version, as far as is known.
fn are_compatible(a: &UsablePort, b: &UsablePort) -> bool {
    a.link_layer == b.link_layer && same_roce_version(a, b)
}

fn same_roce_version(a: &UsablePort, b: &UsablePort) -> bool {
    a.link_layer != LinkLayer::Ethernet
        || a.gid_type.zip(b.gid_type).is_none_or(|(ours, theirs)| ours == theirs)
}

/// The upper half of the GID. A port without a GID uses its LID, within the default subnet.
fn infiniband_subnet(port: &UsablePort) -> Gid {
    const DEFAULT: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
    let mut subnet = [0; 16];
    subnet[..8].copy_from_slice(if port.gid.0 == [0; 16] { &DEFAULT } else { &port.gid.0[..8] });
    Gid(subnet)
}

/// Why no rule pairs this port with one of the others.
fn unpaired_reason(port: &UsablePort, others: &[UsablePort]) -> String {
    let layer = port.link_layer;
    let same_layer: Vec<&UsablePort> =
        others.iter().filter(|other| other.link_layer == layer).collect();
    let compatible = same_layer.iter().find(|other| same_roce_version(port, other));
    match (layer, same_layer.first(), compatible) {
        _ if others.is_empty() => "the other host has no usable port".to_owned(),
        (LinkLayer::Unknown, ..) => "its link layer is unknown".to_owned(),
        (_, None, _) => format!("the other host has no {} port", layer.name()),
        (LinkLayer::InfiniBand, ..) => {
            format!("the other host has no port in its subnet {}", infiniband_subnet(port))
        }
        (LinkLayer::Ethernet, _, None) => {
            let version = port.gid_type.map_or("its RoCE version", GidType::name);
            format!("the other host has no port with {version}")
        }
        (LinkLayer::Ethernet, ..) if scope(port.gid) == AddressScope::Link => {
            "its link-local address does not identify a network — assign an IP address to its net device"
                .to_owned()
        }
        (LinkLayer::Ethernet, ..) => {
            let subnet = port.subnet(port);
            let routed = "routed pairs need RoCE v2 addresses of one family, and are used only if no \
                          two ports share a subnet";
            format!("the other host has no port in its subnet {subnet}; {routed}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::super::usable_port::tests::port;
    use super::*;

    /// The pairs by device name, with the reason; the other side must compute the same.
    fn paired(ours: &[UsablePort], theirs: &[UsablePort]) -> Vec<(String, String, String)> {
        let (pairs, _) = pair(ours, theirs, usize::MAX);
        assert_eq!(mirrored(&pairs), pair(theirs, ours, usize::MAX).0);
        let named =
            |one: Pair| (ours[one.ours].device.clone(), theirs[one.theirs].device.clone(), one.why);
        pairs.into_iter().map(named).collect()
    }

    fn mirrored(pairs: &[Pair]) -> Vec<Pair> {
        let mirror = |pair: &Pair| Pair { ours: pair.theirs, theirs: pair.ours, ..pair.clone() };
        pairs.iter().map(mirror).collect()
    }

    fn expected<const N: usize>(pairs: [(&str, &str, &str); N]) -> Vec<(String, String, String)> {
        let own = |(a, b, why): (&str, &str, &str)| (a.to_owned(), b.to_owned(), why.to_owned());
        pairs.map(own).to_vec()
    }

    #[test]
    fn the_two_rails_of_the_lab_are_paired() {
        let near = [port("rxe0", "10.77.0.1", 24), port("rxe2", "10.77.1.1", 24)];
        let far = [port("rxe3", "10.77.1.2", 24), port("rxe1", "10.77.0.2", 24)];
        let (first, second) = ("same subnet 10.77.0.0/24", "same subnet 10.77.1.0/24");
        assert_eq!(
            paired(&near, &far),
            expected([("rxe0", "rxe1", first), ("rxe2", "rxe3", second)])
        );
        let (pairs, unpaired) = pair(&near, &far, 1);
        assert_eq!((pairs.len(), pairs[0].mtu, pairs[0].weight), (1, 4096, 100_000));
        let limited = "not used: rail limit 1 reached";
        assert_eq!(
            unpaired,
            [format!("local rxe2 port 1: {limited}"), format!("peer's rxe3 port 1: {limited}")]
        );
    }

    #[test]
    fn ports_of_one_subnet_are_paired_by_name_the_fastest_first() {
        let host = |end: u8| {
            let ports =
                (0..4).map(|n| port(&format!("mlx5_{n}"), &format!("10.0.{end}.{}", 9 - n), 16));
            ports.collect::<Vec<UsablePort>>()
        };
        let (mut ours, theirs) = (host(1), host(2));
        ours[2].rate_mbps = 400_000;
        ours[0].rate_mbps = 10;
        ours[3].mtu = 1024;
        let (pairs, unpaired) = pair(&ours, &theirs, 9);
        let indexes: Vec<_> = pairs.iter().map(|pair| (pair.ours, pair.theirs)).collect();
        assert_eq!(indexes, [(3, 3), (2, 2), (1, 1), (0, 0)]);
        assert_eq!((pairs[0].mtu, pairs[3].weight, unpaired.len()), (1024, 10, 0));
        let (pairs, unpaired) = pair(&ours[..1], &theirs, 9);
        assert_eq!((pairs[0].theirs, unpaired.len()), (0, 3));
        assert!(unpaired[0].ends_with("are already paired"), "{unpaired:?}");
    }

    #[test]
    fn without_a_common_subnet_packets_are_routed() {
        let ours = [port("a", "10.1.0.1", 24), port("b", "10.2.0.1", 24), port("l", "fe80::1", 64)];
        let theirs =
            [port("y", "10.2.1.1", 24), port("x", "10.1.1.1", 24), port("z", "10.3.1.1", 24)];
        assert_eq!(paired(&ours, &theirs), expected([("a", "x", "routed"), ("b", "y", "routed")]));
        // Each port in a subnet of its own, as in a routed-to-the-host fabric.
        let (a, b) = (port("a", "10.1.0.1", 32), port("a", "10.1.0.2", 32));
        assert_eq!(paired(&[a], &[b]), expected([("a", "a", "routed")]));
        let v1 = |mut port: UsablePort| {
            port.gid_type = Some(GidType::RoceV1);
            port
        };
        let ours = [port("a", "10.1.0.1", 24), port("b", "2001:db8::1", 64)];
        let old = [v1(port("a", "10.1.1.1", 24)), v1(port("b", "2001:db8::2", 64))];
        assert_eq!(paired(&ours[..1], &[port("b", "2001:db8:1::1", 64)]), []);
        assert_eq!(paired(&ours, &old), []);
        let older = [v1(port("a", "10.1.0.7", 24))];
        assert_eq!(paired(&older, &old), [], "RoCE v1 is not routed");
        let (_, unpaired) = pair(&ours, &old, 4);
        assert!(
            unpaired[0].starts_with("local a port 1: the other host has no port with RoCE v2"),
            "{unpaired:?}"
        );
        assert!(
            unpaired[3].starts_with("peer's b port 1: the other host has no port with RoCE v1")
        );
    }

    #[test]
    fn no_pair_is_routed_if_one_shares_a_subnet() {
        let ours = [port("a", "10.1.0.1", 24), port("b", "10.2.0.1", 24)];
        let theirs = [port("x", "10.9.0.1", 24), port("y", "10.1.0.2", 24)];
        assert_eq!(paired(&ours, &theirs), expected([("a", "y", "same subnet 10.1.0.0/24")]));
        let (_, unpaired) = pair(&ours, &theirs, 4);
        assert!(
            unpaired[0].starts_with(
                "local b port 1: the other host has no port in its subnet 10.2.0.0/24"
            )
        );
        assert!(unpaired[1].starts_with("peer's x port 1: "), "{unpaired:?}");
    }

    #[test]
    fn link_local_ports_are_paired_only_if_there_is_no_other_pair() {
        let (a, b) = (port("a", "fe80::1", 64), port("b", "fe80::2", 64));
        let (c, d) = (port("c", "fe80::3", 64), port("d", "169.254.0.9", 16));
        let why = "link-local, the only pair: assumed to be on the same Ethernet";
        assert_eq!(paired(from_ref(&a), from_ref(&c)), expected([("a", "c", why)]));
        assert_eq!(paired(from_ref(&a), from_ref(&d)), [], "two families");
        assert_eq!(paired(&[a.clone(), b], &[c.clone(), d]), []);
        let (_, unpaired) =
            pair(&[a.clone(), port("e", "10.0.0.1", 8)], &[c, port("f", "10.0.0.2", 8)], 4);
        assert!(unpaired[0].contains("does not identify a network"), "{unpaired:?}");
        assert_eq!(paired(from_ref(&a), from_ref(&a)).len(), 1, "a port reaches itself");
    }

    #[test]
    fn infiniband_uses_subnet_prefix() {
        let ib = |device: &str, gid: &str| UsablePort {
            link_layer: LinkLayer::InfiniBand,
            gid_type: Some(GidType::Ib),
            prefix: None,
            ..port(device, gid, 0)
        };
        let ours =
            [ib("a", "fe80::1"), ib("b", "fec0::1"), ib("c", "::"), port("d", "10.0.0.1", 8)];
        let theirs = [ib("x", "fec0::2"), ib("y", "fe80::2"), ib("z", "fed0::1")];
        let why = |subnet: &str| format!("same InfiniBand subnet {subnet}");
        assert_eq!(
            paired(&ours, &theirs),
            expected([("c", "y", &why("fe80::")), ("b", "x", &why("fec0::"))])
        );
        let (_, unpaired) = pair(&ours, &theirs, 4);
        assert_eq!(unpaired[1], "local d port 1: the other host has no Ethernet port");
        assert_eq!(unpaired[2], "peer's z port 1: the other host has no port in its subnet fed0::");
        assert_eq!(pair(&ours, &[], 4).1.len(), 4);
        let odd = [UsablePort { link_layer: LinkLayer::Unknown, ..port("o", "10.0.0.2", 8) }];
        assert_eq!(pair(&odd, &odd, 4).1[0], "local o port 1: its link layer is unknown");
    }

    /// Random ports, sometimes shared by both hosts: both sides compute the same pairs, each port is in at most
    /// one, and every port is paired or has a reason.
    #[test]
    fn both_hosts_compute_the_same_pairs() {
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let mut count = 0;
        for _ in 0..20_000 {
            let pool: Vec<UsablePort> = (0..6).map(|n| usable(n, &mut random)).collect();
            let mut side = || {
                let mut ports: Vec<UsablePort> =
                    pool.iter().filter(|_| random(2) == 0).cloned().collect();
                let shift = random(6) as usize % ports.len().max(1);
                ports.rotate_left(shift);
                if random(2) == 0 {
                    for port in &mut ports {
                        port.gid.0[15] ^= 0x80;
                    }
                }
                ports
            };
            let (ours, theirs) = (side(), side());
            let max = random(5) as usize;
            let (pairs, unpaired) = pair(&ours, &theirs, max);
            let (peer_pairs, peer_unpaired) = pair(&theirs, &ours, max);
            assert_eq!(mirrored(&pairs), peer_pairs, "{ours:#?}\n{theirs:#?}");
            assert!(pairs.len() <= max);
            assert_eq!(unpaired.len() + 2 * pairs.len(), ours.len() + theirs.len());
            assert_eq!(unpaired.len(), peer_unpaired.len());
            for (at, one) in pairs.iter().enumerate() {
                let others = &pairs[at + 1..];
                assert!(others.iter().all(|two| two.ours != one.ours && two.theirs != one.theirs));
                assert!(others.iter().all(|two| two.weight <= one.weight) && one.weight > 0);
                count += 1;
            }
        }
        assert!(count > 10_000, "{count}");
    }

    fn usable(n: u64, random: &mut impl FnMut(u64) -> u64) -> UsablePort {
        let (net, host) = (random(3), random(4) + 1);
        let address = match random(8) {
            0 => format!("fe80::{host}"),
            1 => format!("169.254.{net}.{host}"),
            2 => format!("2001:db8:{net}::{host}"),
            _ => format!("10.{net}.0.{host}"),
        };
        let kinds = [None, Some(GidType::RoceV1), Some(GidType::RoceV2), Some(GidType::RoceV2)];
        let layers = [LinkLayer::InfiniBand, LinkLayer::Unknown, LinkLayer::Ethernet];
        let prefixes = [None, Some(8), Some(16), Some(24), Some(24)];
        UsablePort {
            port: random(2) as u8 + 1,
            link_layer: layers[random(12).min(2) as usize],
            gid_type: kinds[random(4) as usize],
            prefix: prefixes[random(5) as usize],
            mtu: 256 << random(5),
            rate_mbps: random(3) * 100_000,
            ..port(&format!("rxe{n}"), &address, 0)
        }
    }
}
