//! The interface that leads to a peer, from the kernel's routing tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use node::Tree;

use super::network::Network;

/// The interface that the kernel would use for packets to `peer`, according to the main tables.
pub(super) fn interface_to(tree: &Tree, peer: IpAddr) -> Option<String> {
    let routes = match peer {
        IpAddr::V4(_) => read(tree, "/proc/net/route", parse_v4),
        IpAddr::V6(_) => read(tree, "/proc/net/ipv6_route", parse_v6),
    };
    let matching = routes.into_iter().filter(|route| route.to.contains(peer));
    let best = matching.min_by_key(|route| (u8::MAX - route.to.prefix(), route.metric))?;
    // A route to this host itself leads to no peer.
    (best.interface != "lo").then_some(best.interface)
}

struct Route {
    to: Network,
    interface: String,
    metric: u32,
}

fn read(tree: &Tree, path: &str, parse: fn(&str) -> Option<Route>) -> Vec<Route> {
    let text = tree.text(path).into_value().unwrap_or_default();
    text.lines().take(MAX_ROUTES).filter_map(parse).collect()
}

/// `eth0 0000FEA9 00000000 0001 0 0 100 0000FFFF 0 0 0`: numbers in the CPU's byte order, which is
/// little-endian on every supported machine.
fn parse_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, to, _gateway, flags, _count, _use, metric, mask, ..] = fields.as_slice() else {
        return None;
    };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let prefix = u8::try_from(number(mask)?.count_ones()).ok()?;
    let to = Network::of(Ipv4Addr::from_bits(number(to)?.swap_bytes()).into(), prefix)?;
    let route = Route { to, interface: (*interface).to_owned(), metric: metric.parse().ok()? };
    is_usable(number(flags)?).then_some(route)
}

/// `fd00… 40 0000… 00 0000… 00000100 00000001 00000000 00000001 eth0`.
fn parse_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [to, prefix, _, _, _gateway, metric, _, _, flags, interface] = fields.as_slice() else {
        return None;
    };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let address = Ipv6Addr::from_bits(u128::from_str_radix(to, 16).ok()?);
    let to = Network::of(address.into(), u8::from_str_radix(prefix, 16).ok()?)?;
    let route = Route { to, interface: (*interface).to_owned(), metric: number(metric)? };
    is_usable(number(flags)?).then_some(route)
}

/// Up, and not a reject route.
fn is_usable(flags: u32) -> bool {
    const UP: u32 = 0x1;
    const REJECT: u32 = 0x200;
    flags & UP != 0 && flags & REJECT == 0
}

/// A router's full table is longer, and not needed to find peers.
const MAX_ROUTES: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::super::test_machine;
    use super::*;
    use serde_json::json;

    const V4: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 00000000 0100000A 0003 0 0 100 00000000 0 0 0\n\
        eth0 0000000A 00000000 0001 0 0 100 0000FFFF 0 0 0\n\
        ib0 0001A8C0 00000000 0001 0 0 200 00FFFFFF 0 0 0\n\
        ib1 0001A8C0 00000000 0001 0 0 150 00FFFFFF 0 0 0\n\
        off0 0002A8C0 00000000 0000 0 0 0 00FFFFFF 0 0 0\n";
    const V6: &str = "fd000001000000000000000000000000 40 00000000000000000000000000000000 00 \
         00000000000000000000000000000000 00000100 00000001 00000000 00000001 ib0\n\
         00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
         00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n\
         fd000001000000000000000000000007 80 00000000000000000000000000000000 00 \
         00000000000000000000000000000000 00000000 00000002 00000000 80200001 lo\n";

    #[test]
    fn the_longest_prefix_then_the_lowest_metric_is_used() {
        let tree = test_machine::tree(json!({ "/proc/net/route": V4, "/proc/net/ipv6_route": V6 }));
        let via = |peer: &str| interface_to(&tree, peer.parse().expect("an address"));
        assert_eq!(via("10.0.3.4").as_deref(), Some("eth0"));
        assert_eq!(via("192.168.1.9").as_deref(), Some("ib1"));
        assert_eq!(via("192.168.2.9").as_deref(), Some("eth0"), "a route that is down is ignored");
        assert_eq!(via("fd00:1::9").as_deref(), Some("ib0"));
        assert_eq!(via("fd00:1::7"), None, "this host itself");
        assert_eq!(via("fd00:2::1"), None, "the kernel's reject route at the end of the table");
    }

    #[test]
    fn invalid_lines_are_ignored() {
        let tree = test_machine::tree(
            json!({ "/proc/net/route": "eth0 zz\n\u{7f}\neth0 0 0 1 0 0 x 0\n" }),
        );
        assert_eq!(interface_to(&tree, IpAddr::from([10, 0, 0, 1])), None);
    }
}
