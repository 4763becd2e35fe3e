//! Bonds of RoCE ports.

use node::{Device, NetDev, Reading};

use crate::input::is_software;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "bond",
    title: "bonds have a mode that RoCE supports, and all members are up",
    why: "A NIC joins its two ports into one RDMA device for three bond modes only. In other \
          modes RoCE uses the single ports, without the bandwidth and failover of the bond.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.node.netdevs.iter().filter_map(|netdev| check_bond(input, netdev)).collect()
}

fn check_bond(input: &CheckInput<'_>, bond: &NetDev) -> Option<Finding> {
    let bonding = bond.bonding.as_ref()?;
    let members: Vec<&NetDev> =
        bonding.members.iter().filter_map(|name| input.node.netdev(name)).collect();
    let nics: Vec<&Device> = input
        .devices()
        .into_iter()
        .filter(|device| !is_software(device))
        .filter(|device| {
            members.iter().any(|member| member.pci.is_some() && member.pci == device.pci)
                || device.ports.iter().any(|port| port.netdev.as_deref() == Some(&bond.name))
        })
        .collect();
    if nics.is_empty() {
        return None;
    }
    let mode = bonding.mode.value().map(String::as_str).unwrap_or_default();
    let file = input.file(format!("/sys/class/net/{}/bonding/mode", bond.name));
    let supported = mode.is_empty() || MODES.iter().any(|name| mode.starts_with(name));
    let down: Vec<&str> = members
        .iter()
        .filter(|member| is_down(member))
        .map(|member| member.name.as_str())
        .collect();
    let joined = nics
        .iter()
        .any(|nic| nic.ports.iter().any(|port| port.netdev.as_deref() == Some(&bond.name)));
    let name = &*bond.name;
    Some(match () {
        () if !supported => {
            Finding::warning(name, format!("RoCE does not support bond mode {mode}"))
                .evidence(file)
                .fix("Use 802.3ad, active-backup or balance-xor.")
        }
        () if !down.is_empty() => {
            Finding::warning(name, format!("bond members are down: {}", down.join(", ")))
                .evidence_all(
                    down.iter()
                        .map(|member| input.file(format!("/sys/class/net/{member}/operstate"))),
                )
                .fix("Check the cable and the switch port.")
        }
        () if !joined => {
            Finding::note(name, "its members are separate RDMA devices: RoCE does not use the bond")
                .evidence(file)
        }
        () => Finding::ok(name, format!("used by RoCE, mode {mode}")).evidence(file),
    })
}

fn is_down(member: &NetDev) -> bool {
    member.carrier == Some(false) || member.operstate == Reading::Value("down".to_owned())
}

const MODES: &[&str] = &["802.3ad", "active-backup", "balance-xor"];
