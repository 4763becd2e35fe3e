//! What client and server need: nfs-utils, the module, an active RDMA port.

use std::net::IpAddr;

use node::{Device, Node, Port, Reading, Tree};

use super::{MODULE, Refusal};

/// Checks that a program of nfs-utils is installed.
pub(super) fn has_program(tree: &Tree, name: &str, debian: &str) -> Result<(), Refusal> {
    let there = |folder: &&str| tree.exists(&format!("{folder}/{name}"));
    if ["/usr/sbin", "/sbin", "/usr/local/sbin"].iter().any(there) {
        return Ok(());
    }
    Err(Refusal(format!(
        "{name} of nfs-utils is not installed: install it (Debian: apt install {debian}; RHEL: dnf install nfs-utils)"
    )))
}

/// Checks that the kernel has the transport, where that can be determined.
pub(super) fn has_module(tree: &Tree) -> Result<(), Refusal> {
    if tree.exists(&format!("/sys/module/{MODULE}")) {
        return Ok(());
    }
    let Some(kernel) = tree.text("/proc/sys/kernel/osrelease").into_value() else { return Ok(()) };
    let list = |name: &str| tree.text(&format!("/lib/modules/{kernel}/{name}"));
    let file = format!("/{MODULE}.ko");
    let names = |list: &Reading<String>| list.value().is_some_and(|text| text.contains(&file));
    match list("modules.dep") {
        listed if names(&listed) || names(&list("modules.builtin")) => Ok(()),
        // Too long to be read, or not readable: loading it will fail if it is missing.
        Reading::Refused(_) | Reading::Invalid(_) => Ok(()),
        _ => Err(Refusal(format!(
            "this kernel ({kernel}) has no module {MODULE}: install the rest of its modules (Debian: linux-image-amd64 \
             and not -cloud; Ubuntu: linux-modules-extra-{kernel}; RHEL: kernel-modules)"
        ))),
    }
}

/// The active ports, at least one.
pub(super) fn active_ports(node: &Node) -> Result<Vec<(&Device, &Port)>, Refusal> {
    if node.devices.is_empty() {
        return Err(Refusal(
            "there is no RDMA device here: `wirelane doctor` finds the reason; to create a soft-RoCE device: `rdma link add \
             rxe0 type rxe netdev DEVICE`"
                .to_owned(),
        ));
    }
    let ports =
        node.devices.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let active: Vec<(&Device, &Port)> = ports.filter(|(_, port)| port.is_active()).collect();
    if active.is_empty() {
        let names: Vec<&str> = node.devices.iter().map(|device| device.name.as_str()).collect();
        return Err(Refusal(format!(
            "no port of {} is active: `wirelane doctor` finds the reason",
            names.join(", ")
        )));
    }
    Ok(active)
}

/// Addresses of a port, from its net device and its GIDs: those of VLANs and bonds are only in the GIDs.
pub(super) fn addresses(node: &Node, port: &Port) -> Vec<(IpAddr, Option<u8>)> {
    let netdev = port.netdev.as_deref().and_then(|name| node.netdev(name));
    let mut found: Vec<(IpAddr, Option<u8>)> = netdev
        .map(|netdev| {
            netdev.ips.iter().map(|(address, prefix)| (*address, Some(*prefix))).collect()
        })
        .unwrap_or_default();
    for gid in &port.gids {
        let address = gid.ipv4().map_or(IpAddr::V6(gid.gid), IpAddr::V4);
        if !gid.is_link_local() && found.iter().all(|(known, _)| *known != address) {
            found.push((address, None));
        }
    }
    found
}

/// `rxe0: 10.77.0.1, rxe1: none`.
pub(super) fn describe_addresses(node: &Node, ports: &[(&Device, &Port)]) -> String {
    let describe = |(device, port): &(&Device, &Port)| {
        let addresses = addresses(node, port);
        let addresses: Vec<String> =
            addresses.iter().map(|(address, _)| address.to_string()).collect();
        let addresses = if addresses.is_empty() { "none".to_owned() } else { addresses.join(" ") };
        format!("{}: {addresses}", device.name)
    };
    ports.iter().map(describe).collect::<Vec<_>>().join(", ")
}
