//! Whether a GID index has the same meaning on every port.

use node::{Device, GidType, Port, Reading};

use crate::input::port_name;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "gid-tables",
    title: "a GID index has the same meaning on every port",
    why: "Some programs use one GID index for all ports of a machine. Indices follow the order in \
          which addresses were added, differ between NICs and hosts, and change with addresses.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let first: Vec<(String, &Device, &Port, u32)> = input
        .roce_ports()
        .filter_map(|(device, port)| {
            Some((port_name(device, port), device, port, first_usable(port)?))
        })
        .collect();
    let [(_, _, _, index), rest @ ..] = first.as_slice() else { return Vec::new() };
    if rest.is_empty() {
        return Vec::new();
    }
    if rest.iter().all(|(.., other)| other == index) {
        return vec![Finding::ok(
            "host",
            format!("RoCE v2 with an IPv4 address is GID {index} on all ports"),
        )];
    }
    let evidence = first.iter().map(|(_, device, port, index)| {
        let path = format!("{}/ports/{}/gid_attrs/types/{index}", device.folder(), port.number);
        Evidence::new(path, "RoCE v2, the first with an IPv4 address")
    });
    let finding = Finding::note("host", "RoCE v2 is at different GID indices on different ports")
        .evidence_all(evidence);
    vec![finding.fix(
        "Do not set NCCL_IB_GID_INDEX: NCCL 2.21 and later choose the GID; `wirelane env` prints \
         what to set.",
    )]
}

fn first_usable(port: &Port) -> Option<u32> {
    let usable = port.gids.iter().find(|gid| {
        gid.kind == Reading::Value(GidType::RoceV2)
            && gid.ipv4().is_some()
            && gid.netdev.value().is_some()
    });
    usable.map(|gid| gid.index)
}
