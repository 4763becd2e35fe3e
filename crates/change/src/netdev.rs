//! A net device's addresses, its VLANs, and whether it is up: read over netlink and from /sys, set with `ip`.

use std::net::IpAddr;

use node::Tree;

use super::program::run;
use super::{Error, State};

/// Whether it has an address. A missing device, such as a VLAN that a step before creates, has none.
pub(super) fn read_address(tree: &Tree, netdev: &str, address: &str) -> Result<State, Error> {
    let interfaces = tree.query_results().interfaces().ok_or_else(|| {
        Error::failed(format!("the addresses of {netdev} are known only on a running machine"))
    })?;
    let wanted = parse(address)?;
    let mut known = interfaces.iter().filter(|known| known.name == netdev);
    let has = known.any(|interface| {
        interface.addresses.iter().any(|known| (known.address, known.prefix) == wanted)
    });
    Ok(State::all(if has { THERE } else { NOT_THERE }, 1))
}

pub(super) fn set_address(netdev: &str, address: &str, wanted: Option<&str>) -> Result<(), Error> {
    let verb = if wanted == Some(THERE) { "add" } else { "del" };
    run("ip", &["address", verb, address, "dev", netdev])
}

/// Whether it is administratively up; there may still be no carrier.
pub(super) fn read_link(tree: &Tree, netdev: &str) -> State {
    let flags = tree.hex(&format!("/sys/class/net/{netdev}/flags")).into_value();
    State::Values(vec![flags.map(|flags| if flags & 1 == 1 { UP } else { DOWN }.to_owned())])
}

pub(super) fn set_link(netdev: &str, wanted: Option<&str>) -> Result<(), Error> {
    run("ip", &["link", "set", "dev", netdev, wanted.unwrap_or(UP)])
}

/// Whether the VLAN device exists.
pub(super) fn read_vlan(tree: &Tree, netdev: &str, id: u16) -> State {
    let there = tree.exists(&format!("/sys/class/net/{netdev}.{id}"));
    State::all(if there { THERE } else { NOT_THERE }, 1)
}

/// A new VLAN device is also set up.
pub(super) fn set_vlan(netdev: &str, id: u16, wanted: Option<&str>) -> Result<(), Error> {
    let name = format!("{netdev}.{id}");
    if wanted != Some(THERE) {
        return run("ip", &["link", "delete", "dev", &name]);
    }
    let id = id.to_string();
    run("ip", &["link", "add", "link", netdev, "name", &name, "type", "vlan", "id", &id])?;
    run("ip", &["link", "set", "dev", &name, "up"])
}

fn parse(text: &str) -> Result<(IpAddr, u8), Error> {
    let parts = text.split_once('/').and_then(|(address, prefix)| {
        Some((address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?))
    });
    parts.ok_or_else(|| Error::failed(format!("{text:?} is not of the form ADDRESS/PREFIX")))
}

pub(super) const THERE: &str = "there";
const NOT_THERE: &str = "not there";
pub(super) const UP: &str = "up";
const DOWN: &str = "down";
