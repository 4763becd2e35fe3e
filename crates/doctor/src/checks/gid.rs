//! GIDs of RoCE ports.

use node::{Device, Gid, GidType, Port, Reading, Role};

use crate::input::{is_roce, port_name};
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gid",
    title: "each RoCE port has a RoCE v2 GID of this network namespace",
    why: "A RoCE packet needs a GID with an IP address of the port's net device. GID 0 is link-local \
          and RoCE v1; programs that find no better one use it, and their connections fail with \
          transport retry count exceeded (status 12).",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let roce = input.active_ports().filter(|(device, port)| is_roce(device, port));
    roce.map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    if let Some(evidence) = unreadable_table(input, device, port) {
        return Finding::unknown(name, "its GID table cannot be read").evidence(evidence);
    }
    let finding = match port.gids.iter().find(|gid| is_usable(input, gid)) {
        Some(_) if port.gids.iter().any(|gid| is_usable(input, gid) && gid.ipv4().is_some()) => {
            Finding::ok(name, "has a RoCE v2 GID")
        }
        Some(_) => Finding::note(
            name,
            "has RoCE v2 GIDs with IPv6 addresses only; NCCL uses IPv4 by default",
        )
        .fix("For NCCL: `export NCCL_IB_ADDR_FAMILY=AF_INET6` (`wirelane env` does it)."),
        None => without_gid(input, device, port),
    };
    finding.evidence_all(table(input, device, port))
}

/// The reason why nothing is known about the table: it is not part of the tree, or its entries may not be read.
fn unreadable_table(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Evidence> {
    if !port.gids.is_empty() {
        return None;
    }
    let folder = format!("{}/ports/{}/gids", device.folder(), port.number);
    let names = input.tree.names(&folder);
    let Some(first) = names.value().map(|names| names.first()) else {
        return Some(Evidence::new(folder, names.why_not().unwrap_or_default()));
    };
    let entry = format!("{folder}/{}", first?);
    match input.tree.text(&entry) {
        Reading::Value(_) => None,
        other => Some(Evidence::new(entry, other.why_not().unwrap_or_default())),
    }
}

fn without_gid(input: &CheckInput<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    if input.may_be_idle(device) {
        return Finding::note(name, "a virtual function without an IP address").fix(
            "Assigned to a pod or virtual machine: nothing to do, it gets its address there.",
        );
    }
    let of_another = |gid: &&Gid| matches!(gid.kind, Reading::Refused(_)) || is_foreign(input, gid);
    let foreign = port.gids.iter().filter(of_another).filter(|gid| !gid.is_link_local()).count();
    if foreign > 0 {
        let finding =
            Finding::problem(name, "its GIDs belong to a net device in another network namespace");
        return finding
            .fix(
                "Give this pod the port's net device: an SR-IOV or host-device network with an \
                 address (`k8s.v1.cni.cncf.io/networks`).",
            )
            .fix("Or use the host's network: `hostNetwork: true`.");
    }
    let old = |gid: &Gid| gid.kind == Reading::Value(GidType::IbOrRoceV1) && !gid.is_link_local();
    let v2 = port.gids.iter().any(|gid| gid.kind == Reading::Value(GidType::RoceV2));
    if !v2 && port.gids.iter().any(old) {
        return Finding::note(
            name,
            "the NIC supports only RoCE v1, which is not routed: it works within one Ethernet segment",
        )
        .fix(
            "For programs that look for RoCE v2, set the GID index by hand: `wirelane devices` prints \
             it.",
        );
    }
    if let Some(why) = reason_without_gid(input, device, port) {
        return Finding::note(name, format!("no RoCE v2 GID; {why}")).fix(
            "If the port itself should carry RoCE: give its net device an IP address. Otherwise \
             nothing to do.",
        );
    }
    let netdev = port.netdev.as_deref().unwrap_or("NETDEV");
    Finding::problem(name, "no RoCE v2 GID: its net device has no IP address")
        .fix(format!("ip addr add ADDRESS/PREFIX dev {netdev}"))
        .fix(format!("ip link set {netdev} up"))
}

/// Why a port may be without a RoCE v2 GID.
fn reason_without_gid(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<String> {
    if let Some(master) = input.netdev(port).and_then(|netdev| netdev.master.as_deref()) {
        return Some(format!("its net device is part of {master}"));
    }
    if let Role::Physical { vfs: Some(vfs @ 1..), .. } = device.role {
        return Some(format!("it has {vfs} virtual functions, which may be used instead"));
    }
    let usable = |port: &Port| port.gids.iter().any(|gid| is_usable(input, gid));
    let mut others = input.active_ports().filter(|(device, port)| is_roce(device, port));
    let (device, port) = others.find(|(_, port)| usable(port))?;
    Some(format!("{} has one", port_name(device, port)))
}

/// RoCE v2, not link-local, and of a net device in this network namespace.
fn is_usable(input: &CheckInput<'_>, gid: &Gid) -> bool {
    gid.kind == Reading::Value(GidType::RoceV2) && !gid.is_link_local() && !is_foreign(input, gid)
}

fn is_foreign(input: &CheckInput<'_>, gid: &Gid) -> bool {
    match &gid.netdev {
        Reading::Value(name) => !input.node.netdevs.is_empty() && input.node.netdev(name).is_none(),
        Reading::Refused(_) => true,
        _ => false,
    }
}

fn table(input: &CheckInput<'_>, device: &Device, port: &Port) -> Vec<Evidence> {
    let folder = format!("{}/ports/{}", device.folder(), port.number);
    if port.gids.is_empty() {
        return vec![Evidence::new(
            format!("{folder}/gids"),
            format!("{} entries, all empty", port.gid_table_len),
        )];
    }
    let entry = |gid: &Gid| {
        let kind = input.file(format!("{folder}/gid_attrs/types/{}", gid.index)).value;
        let netdev = input.file(format!("{folder}/gid_attrs/ndevs/{}", gid.index)).value;
        Evidence::new(
            format!("{folder}/gids/{}", gid.index),
            format!("{} (type {kind}; net device {netdev})", gid.gid),
        )
    };
    port.gids.iter().take(MAX_GIDS).map(entry).collect()
}

/// GIDs listed as evidence: ports may have hundreds.
const MAX_GIDS: usize = 8;
