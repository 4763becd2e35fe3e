//! Addresses that RoCE can use here.

use node::{Device, Gid, GidType, Port, Role, Seen};

use crate::case::{is_roce, port_name};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gid",
    title: "each RoCE port has a RoCE v2 address of this network namespace",
    why: "A RoCE packet needs a GID made of an IP address of the port's net device. Entry 0 is a \
          link-local one for RoCE v1; who gets no better takes it, and connections end with \
          transport retries exceeded (status 12).",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let roce = case.active_ports().filter(|(device, port)| is_roce(device, port));
    roce.map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    let finding = match port.gids.iter().find(|gid| is_usable(case, gid)) {
        Some(_) if port.gids.iter().any(|gid| is_usable(case, gid) && gid.ipv4().is_some()) => {
            Finding::ok(name, "has a RoCE v2 address")
        }
        Some(_) => Finding::note(
            name,
            "has RoCE v2 addresses of IPv6 alone; NCCL looks for IPv4 unless told",
        )
        .fix("For NCCL: `export NCCL_IB_ADDR_FAMILY=AF_INET6` (`wirelane env` does it)."),
        None => without(case, device, port),
    };
    finding.read_all(table(case, device, port))
}

fn without(case: &Case<'_>, device: &Device, port: &Port) -> Finding {
    let name = port_name(device, port);
    if case.may_be_idle(device) {
        return Finding::note(name, "a virtual function without an address here")
            .fix("Given to a pod or virtual machine: nothing to do, it is addressed there.");
    }
    let of_another = |gid: &&Gid| matches!(gid.kind, Seen::Refused(_)) || is_foreign(case, gid);
    let foreign = port.gids.iter().filter(of_another).filter(|gid| !gid.is_link_local()).count();
    if foreign > 0 {
        let finding = Finding::problem(
            name,
            "its addresses belong to a net device of another network namespace",
        );
        return finding
            .fix(
                "Give this pod the port's net device: an SR-IOV or host-device network with an \
                 address (`k8s.v1.cni.cncf.io/networks`).",
            )
            .fix("Or run it in the host's network: `hostNetwork: true`.");
    }
    let old = |gid: &Gid| gid.kind == Seen::Value(GidType::IbOrRoceV1) && !gid.is_link_local();
    let v2 = port.gids.iter().any(|gid| gid.kind == Seen::Value(GidType::RoceV2));
    if !v2 && port.gids.iter().any(old) {
        return Finding::note(
            name,
            "the card has RoCE v1 alone, which is not routed; it works within one Ethernet segment",
        )
        .fix(
            "Name the address by hand where a program wants RoCE v2: `wirelane devices` shows its \
             index.",
        );
    }
    if let Some(why) = excuse(case, device, port) {
        return Finding::note(name, format!("no RoCE v2 address; {why}")).fix(
            "Meant to carry RoCE itself: give its net device an address. Else nothing to do.",
        );
    }
    let netdev = port.netdev.as_deref().unwrap_or("NETDEV");
    Finding::problem(name, "no RoCE v2 address: its net device has no IP address")
        .fix(format!("ip addr add ADDRESS/PREFIX dev {netdev}"))
        .fix(format!("ip link set {netdev} up"))
}

/// Why a port may be without an address of its own.
fn excuse(case: &Case<'_>, device: &Device, port: &Port) -> Option<String> {
    if let Some(master) = case.netdev(port).and_then(|netdev| netdev.master.as_deref()) {
        return Some(format!("its net device is part of {master}"));
    }
    if let Role::Physical { vfs: Some(vfs @ 1..), .. } = device.role {
        return Some(format!("it has {vfs} virtual functions, which may do the work"));
    }
    let usable = |port: &Port| port.gids.iter().any(|gid| is_usable(case, gid));
    let mut others = case.active_ports().filter(|(device, port)| is_roce(device, port));
    let (device, port) = others.find(|(_, port)| usable(port))?;
    Some(format!("{} has one", port_name(device, port)))
}

/// RoCE v2, not only for its own link, and of a net device that is here.
fn is_usable(case: &Case<'_>, gid: &Gid) -> bool {
    gid.kind == Seen::Value(GidType::RoceV2) && !gid.is_link_local() && !is_foreign(case, gid)
}

fn is_foreign(case: &Case<'_>, gid: &Gid) -> bool {
    match &gid.netdev {
        Seen::Value(name) => !case.node.netdevs.is_empty() && case.node.netdev(name).is_none(),
        Seen::Refused(_) => true,
        _ => false,
    }
}

fn table(case: &Case<'_>, device: &Device, port: &Port) -> Vec<Evidence> {
    let folder = format!("{}/ports/{}", device.folder(), port.number);
    if port.gids.is_empty() {
        return vec![Evidence::new(
            format!("{folder}/gids"),
            format!("{} entries, all empty", port.gid_table_len),
        )];
    }
    let entry = |gid: &Gid| {
        let kind = case.file(format!("{folder}/gid_attrs/types/{}", gid.index)).value;
        let netdev = case.file(format!("{folder}/gid_attrs/ndevs/{}", gid.index)).value;
        Evidence::new(
            format!("{folder}/gids/{}", gid.index),
            format!("{} (type {kind}; net device {netdev})", gid.gid),
        )
    };
    port.gids.iter().take(MAX_SHOWN).map(entry).collect()
}

/// Ports may have hundreds.
const MAX_SHOWN: usize = 8;
