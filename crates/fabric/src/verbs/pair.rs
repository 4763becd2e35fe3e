//! Which ports of two hosts make rails: a pure function of what both have told. Each host computes it for
//! itself, and both come to the same pairs.

use std::cmp::Reverse;

use super::choose::{Reach, reach};
use super::gid::{Gid, GidType};
use super::port::LinkLayer;
use super::usable_port::UsablePort;

/// A port of ours and one of theirs that make a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its place among our ports.
    pub ours: usize,
    /// Its place among theirs.
    pub theirs: usize,
    /// Why these two, in words; the same at both hosts.
    pub why: String,
    /// Bytes: the smaller of both.
    pub mtu: u32,
    /// Megabits a second of the slower, at least 1: how much of the work it should get.
    pub weight: u64,
}

/// Pairs ports that reach each other, each at most once and at most so many, the fastest first; and says
/// in words why the others have no rail.
///
/// Ports of one subnet do, of InfiniBand or of IP, with the same version of RoCE. Where no two share one,
/// those do whose addresses routers forward. A link-local address does not say where its cable leads: two
/// are paired only where there is nothing else and each host has just one. Of equals, ports of the same
/// name meet, as rails are often cabled.
pub fn pair(ours: &[UsablePort], theirs: &[UsablePort], most: usize) -> (Vec<Pair>, Vec<String>) {
    let fitting = [neighbours as Rule, routed]
        .map(|rule| fitting(ours, theirs, rule))
        .into_iter()
        .find(|pairs| !pairs.is_empty())
        .unwrap_or_else(|| unambiguous(fitting(ours, theirs, link_local)));
    let pairs = one_to_one(&fitting, most);
    let left = |whose: &str,
                ports: &[UsablePort],
                others: &[UsablePort],
                place: fn(&Pair) -> usize| {
        let among = |pairs: &[Pair], at: usize| pairs.iter().any(|pair| place(pair) == at);
        let left = (0..ports.len()).filter(|at| !among(&pairs, *at));
        let why = |at| match among(&fitting, at) {
            true if pairs.len() == most => format!("only {most} wanted, and there are better ones"),
            true => "the other side's ports that it reaches have a rail already".to_owned(),
            false => obstacle(&ports[at], others),
        };
        left.map(|at| format!("{whose} {}: {}", ports[at], why(at))).collect::<Vec<_>>()
    };
    let left =
        [left("our", ours, theirs, |one| one.ours), left("their", theirs, ours, |one| one.theirs)];
    (pairs, left.concat())
}

/// Why two ports make a rail, if they do; the same whichever comes first.
type Rule = fn(&UsablePort, &UsablePort) -> Option<String>;

/// All pairs that the rule allows, the best first. The order is the same from both sides; where a port is
/// on both, of two mirrored pairs neither is ever taken, since its pair with itself comes before them.
fn fitting(ours: &[UsablePort], theirs: &[UsablePort], rule: Rule) -> Vec<Pair> {
    let all = (0..ours.len()).flat_map(|ours| (0..theirs.len()).map(move |theirs| (ours, theirs)));
    let fit = |(at, to): (usize, usize)| {
        let (a, b) = (&ours[at], &theirs[to]);
        let (mtu, weight) = (a.mtu.min(b.mtu), a.rate_mbps.min(b.rate_mbps).max(1));
        rule(a, b).map(|why| Pair { ours: at, theirs: to, why, mtu, weight })
    };
    let mut pairs: Vec<Pair> = all.filter_map(fit).collect();
    pairs.sort_by_key(|pair| {
        let [a, b] = [&ours[pair.ours], &theirs[pair.theirs]].map(|port| (port.gid.0, name(port)));
        (Reverse(pair.weight), a.1 != b.1, a.min(b), a.max(b))
    });
    pairs
}

fn name(port: &UsablePort) -> (&str, u8) {
    (&port.device, port.port)
}

/// The pairs of ports that are in no other.
fn unambiguous(pairs: Vec<Pair>) -> Vec<Pair> {
    let once = |one: &&Pair| {
        let meets = |other: &&Pair| other.ours == one.ours || other.theirs == one.theirs;
        pairs.iter().filter(meets).count() == 1
    };
    pairs.iter().filter(once).cloned().collect()
}

/// The best pairs of which no port is in two.
fn one_to_one(fitting: &[Pair], most: usize) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for one in fitting {
        let free = pairs.iter().all(|pair| pair.ours != one.ours && pair.theirs != one.theirs);
        if free && pairs.len() < most {
            pairs.push(one.clone());
        }
    }
    pairs
}

/// Two ports of one subnet.
fn neighbours(a: &UsablePort, b: &UsablePort) -> Option<String> {
    match a.link_layer {
        _ if !alike(a, b) => None,
        LinkLayer::InfiniBand => {
            let subnet = infiniband_subnet(a);
            (subnet == infiniband_subnet(b)).then(|| format!("one InfiniBand subnet, {subnet}"))
        }
        LinkLayer::Ethernet => {
            let is_routed = |port: &UsablePort| reach(port.gid) != Reach::Link;
            let subnet = a.shared_subnet(b)?;
            // A port reaches itself in any case.
            ((is_routed(a) && is_routed(b)) || a.gid == b.gid)
                .then(|| format!("one subnet, {subnet}"))
        }
        LinkLayer::Unknown => None,
    }
}

/// Two ports whose addresses routers forward.
fn routed(a: &UsablePort, b: &UsablePort) -> Option<String> {
    let forwarded = |port: &UsablePort| {
        let version = port.gid_type.unwrap_or(GidType::RoceV2);
        version == GidType::RoceV2 && reach(port.gid) != Reach::Link
    };
    let both = is_ethernet(a, b) && forwarded(a) && forwarded(b) && reach(a.gid) == reach(b.gid);
    both.then(|| "routed".to_owned())
}

/// Two ports that may be on one cable.
fn link_local(a: &UsablePort, b: &UsablePort) -> Option<String> {
    let local = |port: &UsablePort| reach(port.gid) == Reach::Link && !port.gid.is_empty();
    let family = |port: &UsablePort| port.gid.ip().is_ipv4();
    let both = is_ethernet(a, b) && local(a) && local(b) && family(a) == family(b);
    both.then(|| "link-local, the only ones: they must be on one Ethernet".to_owned())
}

fn is_ethernet(a: &UsablePort, b: &UsablePort) -> bool {
    alike(a, b) && a.link_layer == LinkLayer::Ethernet
}

/// Whether their packets are of one kind, as far as is known.
fn alike(a: &UsablePort, b: &UsablePort) -> bool {
    a.link_layer == b.link_layer && speaks(a, b)
}

fn speaks(a: &UsablePort, b: &UsablePort) -> bool {
    a.link_layer != LinkLayer::Ethernet
        || a.gid_type.zip(b.gid_type).is_none_or(|(ours, theirs)| ours == theirs)
}

/// The upper half of the address. A port without one uses LID, within the default subnet.
fn infiniband_subnet(port: &UsablePort) -> Gid {
    const DEFAULT: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
    let mut subnet = [0; 16];
    subnet[..8].copy_from_slice(if port.gid.0 == [0; 16] { &DEFAULT } else { &port.gid.0[..8] });
    Gid(subnet)
}

/// Why no rule gives this port one of the others.
fn obstacle(port: &UsablePort, others: &[UsablePort]) -> String {
    let layer = port.link_layer;
    let alike: Vec<&UsablePort> = others.iter().filter(|other| other.link_layer == layer).collect();
    let speaking = alike.iter().find(|other| speaks(port, other));
    match (layer, alike.first(), speaking) {
        _ if others.is_empty() => "the other side has no port that can be used".to_owned(),
        (LinkLayer::Unknown, ..) => "its link layer is unknown".to_owned(),
        (_, None, _) => format!("the other side has no port with {}", layer.name()),
        (LinkLayer::InfiniBand, ..) => {
            format!("the other side has no port in its subnet, {}", infiniband_subnet(port))
        }
        (LinkLayer::Ethernet, _, None) => {
            let version = port.gid_type.map_or("its version of RoCE", GidType::name);
            format!("the other side has no port with {version}")
        }
        (LinkLayer::Ethernet, ..) if reach(port.gid) == Reach::Link => {
            "a link-local address does not say where its cable leads: give its net device an address"
                .to_owned()
        }
        (LinkLayer::Ethernet, ..) => {
            let subnet = port.subnet(port);
            let routed = "and packets are routed only between RoCE v2 addresses of one family, and where \
                          no two ports share a subnet";
            format!("the other side has no port in its subnet, {subnet}, {routed}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::super::usable_port::tests::port;
    use super::*;

    /// Pairs by name, with the reason; the other side must see the same.
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
    fn the_two_wires_of_the_lab_are_found() {
        let near = [port("rxe0", "10.77.0.1", 24), port("rxe2", "10.77.1.1", 24)];
        let far = [port("rxe3", "10.77.1.2", 24), port("rxe1", "10.77.0.2", 24)];
        let (first, second) = ("one subnet, 10.77.0.0/24", "one subnet, 10.77.1.0/24");
        assert_eq!(
            paired(&near, &far),
            expected([("rxe0", "rxe1", first), ("rxe2", "rxe3", second)])
        );
        let (pairs, left) = pair(&near, &far, 1);
        assert_eq!((pairs.len(), pairs[0].mtu, pairs[0].weight), (1, 4096, 100_000));
        let wanted = "only 1 wanted, and there are better ones";
        assert_eq!(
            left,
            [format!("our rxe2 port 1: {wanted}"), format!("their rxe3 port 1: {wanted}")]
        );
    }

    #[test]
    fn ports_of_one_subnet_meet_by_name_and_the_fastest_first() {
        let host = |end: u8| {
            let ports =
                (0..4).map(|n| port(&format!("mlx5_{n}"), &format!("10.0.{end}.{}", 9 - n), 16));
            ports.collect::<Vec<UsablePort>>()
        };
        let (mut ours, theirs) = (host(1), host(2));
        ours[2].rate_mbps = 400_000;
        ours[0].rate_mbps = 10;
        ours[3].mtu = 1024;
        let (pairs, left) = pair(&ours, &theirs, 9);
        let places: Vec<_> = pairs.iter().map(|pair| (pair.ours, pair.theirs)).collect();
        assert_eq!(places, [(3, 3), (2, 2), (1, 1), (0, 0)]);
        assert_eq!((pairs[0].mtu, pairs[3].weight, left.len()), (1024, 10, 0));
        let (pairs, left) = pair(&ours[..1], &theirs, 9);
        assert_eq!((pairs[0].theirs, left.len()), (0, 3));
        assert!(left[0].ends_with("have a rail already"), "{left:?}");
    }

    #[test]
    fn without_a_common_subnet_packets_are_routed() {
        let ours = [port("a", "10.1.0.1", 24), port("b", "10.2.0.1", 24), port("l", "fe80::1", 64)];
        let theirs =
            [port("y", "10.2.1.1", 24), port("x", "10.1.1.1", 24), port("z", "10.3.1.1", 24)];
        assert_eq!(paired(&ours, &theirs), expected([("a", "x", "routed"), ("b", "y", "routed")]));
        // Each alone in its subnet, as where every host routes.
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
        let (_, left) = pair(&ours, &old, 4);
        assert!(
            left[0].starts_with("our a port 1: the other side has no port with RoCE v2"),
            "{left:?}"
        );
        assert!(left[3].starts_with("their b port 1: the other side has no port with RoCE v1"));
    }

    #[test]
    fn one_shared_subnet_is_enough_not_to_route() {
        let ours = [port("a", "10.1.0.1", 24), port("b", "10.2.0.1", 24)];
        let theirs = [port("x", "10.9.0.1", 24), port("y", "10.1.0.2", 24)];
        assert_eq!(paired(&ours, &theirs), expected([("a", "y", "one subnet, 10.1.0.0/24")]));
        let (_, left) = pair(&ours, &theirs, 4);
        assert!(
            left[0]
                .starts_with("our b port 1: the other side has no port in its subnet, 10.2.0.0/24")
        );
        assert!(left[1].starts_with("their x port 1: "), "{left:?}");
    }

    #[test]
    fn link_local_ports_are_paired_only_if_there_is_no_choice() {
        let (a, b) = (port("a", "fe80::1", 64), port("b", "fe80::2", 64));
        let (c, d) = (port("c", "fe80::3", 64), port("d", "169.254.0.9", 16));
        let why = "link-local, the only ones: they must be on one Ethernet";
        assert_eq!(paired(from_ref(&a), from_ref(&c)), expected([("a", "c", why)]));
        assert_eq!(paired(from_ref(&a), from_ref(&d)), [], "two families");
        assert_eq!(paired(&[a.clone(), b], &[c.clone(), d]), []);
        let (_, left) =
            pair(&[a.clone(), port("e", "10.0.0.1", 8)], &[c, port("f", "10.0.0.2", 8)], 4);
        assert!(left[0].contains("does not say where its cable leads"), "{left:?}");
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
        let why = |subnet: &str| format!("one InfiniBand subnet, {subnet}");
        assert_eq!(
            paired(&ours, &theirs),
            expected([("c", "y", &why("fe80::")), ("b", "x", &why("fec0::"))])
        );
        let (_, left) = pair(&ours, &theirs, 4);
        assert_eq!(left[1], "our d port 1: the other side has no port with Ethernet");
        assert_eq!(left[2], "their z port 1: the other side has no port in its subnet, fed0::");
        assert_eq!(pair(&ours, &[], 4).1.len(), 4);
        let odd = [UsablePort { link_layer: LinkLayer::Unknown, ..port("o", "10.0.0.2", 8) }];
        assert_eq!(pair(&odd, &odd, 4).1[0], "our o port 1: its link layer is unknown");
    }

    /// Random hosts, some of which are one host: both sides see the same pairs, each port is in at most
    /// one, and every port is paired or explained.
    #[test]
    fn both_hosts_come_to_the_same_pairs() {
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let mut some = 0;
        for _ in 0..20_000 {
            let pool: Vec<UsablePort> = (0..6).map(|n| usable(n, &mut random)).collect();
            let mut side = || {
                let mut ports: Vec<UsablePort> =
                    pool.iter().filter(|_| random(2) == 0).cloned().collect();
                let turn = random(6) as usize % ports.len().max(1);
                ports.rotate_left(turn);
                if random(2) == 0 {
                    for port in &mut ports {
                        port.gid.0[15] ^= 0x80;
                    }
                }
                ports
            };
            let (ours, theirs) = (side(), side());
            let most = random(5) as usize;
            let (pairs, left) = pair(&ours, &theirs, most);
            let (from_there, left_there) = pair(&theirs, &ours, most);
            assert_eq!(mirrored(&pairs), from_there, "{ours:#?}\n{theirs:#?}");
            assert!(pairs.len() <= most);
            assert_eq!(left.len() + 2 * pairs.len(), ours.len() + theirs.len());
            assert_eq!(left.len(), left_there.len());
            for (at, one) in pairs.iter().enumerate() {
                let others = &pairs[at + 1..];
                assert!(others.iter().all(|two| two.ours != one.ours && two.theirs != one.theirs));
                assert!(others.iter().all(|two| two.weight <= one.weight) && one.weight > 0);
                some += 1;
            }
        }
        assert!(some > 10_000, "{some}");
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
