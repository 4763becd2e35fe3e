//! Bonds of Ethernet ports that carry RoCE.

use node::{Device, NetDev, Seen};

use crate::case::is_software;
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "bond",
    title: "bonds are of a kind that RoCE can use, with all members up",
    why: "A card joins its two ports into one RDMA device for bonds of three modes only. In \
          others, RoCE stays on single ports, and what the bond promises is not there for it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.node.netdevs.iter().filter_map(|netdev| of_bond(case, netdev)).collect()
}

fn of_bond(case: &Case<'_>, bond: &NetDev) -> Option<Finding> {
    let bonding = bond.bonding.as_ref()?;
    let members: Vec<&NetDev> =
        bonding.members.iter().filter_map(|name| case.node.netdev(name)).collect();
    let cards: Vec<&Device> = case
        .devices()
        .into_iter()
        .filter(|device| !is_software(device))
        .filter(|device| {
            members.iter().any(|member| member.pci.is_some() && member.pci == device.pci)
                || device.ports.iter().any(|port| port.netdev.as_deref() == Some(&bond.name))
        })
        .collect();
    if cards.is_empty() {
        return None;
    }
    let mode = bonding.mode.value().map(String::as_str).unwrap_or_default();
    let file = case.file(format!("/sys/class/net/{}/bonding/mode", bond.name));
    let known = mode.is_empty() || MODES.iter().any(|name| mode.starts_with(name));
    let down: Vec<&str> = members
        .iter()
        .filter(|member| is_down(member))
        .map(|member| member.name.as_str())
        .collect();
    let joined = cards
        .iter()
        .any(|card| card.ports.iter().any(|port| port.netdev.as_deref() == Some(&bond.name)));
    let name = &*bond.name;
    Some(match () {
        () if !known => Finding::warning(name, format!("mode {mode} is none that RoCE can use"))
            .read(file)
            .fix("Use 802.3ad, active-backup or balance-xor."),
        () if !down.is_empty() => {
            Finding::warning(name, format!("of the bond {} is down", down.join(", ")))
                .read_all(
                    down.iter()
                        .map(|member| case.file(format!("/sys/class/net/{member}/operstate"))),
                )
                .fix("Look at its cable and at the switch's port.")
        }
        () if !joined => Finding::note(
            name,
            "its members are RDMA devices of their own: RoCE does not use the bond",
        )
        .read(file),
        () => Finding::ok(name, format!("carries RoCE, mode {mode}")).read(file),
    })
}

fn is_down(member: &NetDev) -> bool {
    member.carrier == Some(false) || member.operstate == Seen::Value("down".to_owned())
}

const MODES: &[&str] = &["802.3ad", "active-backup", "balance-xor"];
