//! The MTU of RoCE ports.

use node::{Device, Port};

use crate::expected::mtu::{LARGEST_PACKET, MIN, WANTED};
use crate::input::port_name;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "mtu",
    title: "RoCE ports have an MTU of 4096 bytes",
    why: "The RoCE MTU is the largest of 256, 512, 1024, 2048 and 4096 bytes that fits in the net \
          device's MTU with its headers: 1024 at 1500, 4096 from 4200 on. Larger packets need fewer \
          headers and interrupts; both ends and every switch between must support them.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.roce_ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let mtu = port.active_mtu?;
    let netdev = port.netdev.as_deref()?;
    let same_model = input.same_model(device).into_iter().flat_map(|other| &other.ports);
    let larger =
        same_model.filter(|other| other.is_active()).filter_map(|other| other.active_mtu).max();
    let finding = match larger {
        _ if mtu >= LARGEST_PACKET => Finding::ok(name, format!("RoCE MTU {mtu}")),
        Some(larger) if larger > mtu => Finding::warning(
            name,
            format!("RoCE MTU {mtu}, but {larger} on another port of the same model"),
        ),
        _ => Finding::warning(
            name,
            format!("RoCE MTU {mtu}; {LARGEST_PACKET} needs a net device MTU of {MIN} or more"),
        ),
    };
    let finding = finding.evidence(input.file(format!("/sys/class/net/{netdev}/mtu")));
    if mtu >= LARGEST_PACKET {
        return Some(finding);
    }
    Some(finding.fix(format!(
        "ip link set {netdev} mtu {WANTED} (or {MIN}) at both ends, after setting it on the switches \
         between."
    )))
}
