//! RoCE sends packets of 4096 bytes only where the net device's MTU has space for their headers.

use doctor::expected::mtu::{LARGEST_PACKET, MIN, WANTED, is_enough};

use super::{Context, persistent, udev};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let mut raised: Vec<&str> = Vec::new();
    for (device, port, netdev) in context.roce() {
        // A bond's members take its MTU. Bridges have their own, which is not changed.
        let master = netdev.master.as_deref().and_then(|name| context.node.netdev(name));
        let netdev = master.filter(|master| master.bonding.is_some()).unwrap_or(netdev);
        let Some(mtu) = netdev.mtu.value().filter(|mtu| !is_enough(**mtu)) else { continue };
        let name = &netdev.name;
        if raised.contains(&name.as_str()) {
            continue;
        }
        let now = port.active_mtu.map_or("too few".to_owned(), |mtu| mtu.to_string());
        let why = format!(
            "{} sends packets of {now} bytes: {name} has MTU {mtu}; packets of {LARGEST_PACKET} need {MIN}",
            device.name
        );
        let file = format!("/sys/class/net/{name}/mtu");
        plan.step("mtu", why, Change::value(file, WANTED.to_string()), true);
        let rule = format!("{}, ATTR{{mtu}}=\"{WANTED}\"", udev::net(netdev));
        plan.step("mtu", persistent::WHY, persistent::rule("mtu", name, rule), true);
        raised.push(name);
    }
    if !raised.is_empty() {
        plan.advise("mtu", OTHERS, vec![
            format!("ping -M do -s {} PEER", WANTED - PING_HEADERS),
            format!("nmcli connection modify NAME 802-3-ethernet.mtu {WANTED}    # where NetworkManager sets it"),
        ]);
    }
}

const OTHERS: &str = "the switch and the other end must pass packets of 9000 bytes too: test it. A network \
                      manager that sets the MTU must be changed too";
/// IPv4 20, ICMP 8.
const PING_HEADERS: u32 = 28;
