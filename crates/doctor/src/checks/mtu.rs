//! The largest packet of RoCE ports.

use node::{Device, Port};

use crate::case::port_name;
use crate::limits::mtu::{LARGEST_PACKET, MIN, WANTED};
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "mtu",
    title: "RoCE ports may send packets of 4096 bytes",
    why: "A RoCE packet carries the largest of 256, 512, 1024, 2048 and 4096 bytes that fits in \
          the net device's MTU with its headers: 1024 at 1500, 4096 from 4200 on. Larger ones \
          need fewer headers and interrupts, and both ends and every switch between must have \
          them.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.roce_ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let mtu = port.active_mtu?;
    let netdev = port.netdev.as_deref()?;
    let twin = case.same_model(device).into_iter().flat_map(|twin| &twin.ports);
    let larger = twin.filter(|other| other.is_active()).filter_map(|other| other.active_mtu).max();
    let finding = match larger {
        _ if mtu >= LARGEST_PACKET => Finding::ok(name, format!("packets of {mtu} bytes")),
        Some(larger) if larger > mtu => Finding::warning(
            name,
            format!("packets of {mtu} bytes, and {larger} on another port of the same model"),
        ),
        _ => Finding::warning(
            name,
            format!("packets of {mtu} bytes; {LARGEST_PACKET} need an MTU of {MIN} or more"),
        ),
    };
    let finding = finding.read(case.file(format!("/sys/class/net/{netdev}/mtu")));
    if mtu >= LARGEST_PACKET {
        return Some(finding);
    }
    Some(finding.fix(format!(
        "ip link set {netdev} mtu {WANTED}, at both ends, after the switches between have it (or \
         {MIN})."
    )))
}
