//! PCIe reads of 4096 bytes: a NIC that fetches memory in small pieces does not fill a fast link.

use doctor::limits::pcie::READ_REQUEST;

use super::{Ask, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.profile != Profile::Throughput {
        return;
    }
    for (device, address) in ask.physical() {
        let function = ask.node.pci.get(&address);
        let Some(now) = function.and_then(|function| function.max_read_request) else { continue };
        if now >= READ_REQUEST {
            continue;
        }
        let why = format!("{} asks for {now} bytes a read over PCIe", device.name);
        let target = Target::ReadRequest { pci: address.to_string() };
        let change = Change { target, wanted: State::all(READ_REQUEST.to_string(), 1) };
        plan.step("maxread", why, change, false);
        let rule = format!(
            "{}, RUN+=\"/usr/bin/setpci -s {address} CAP_EXP+8.w=5000:7000\"",
            udev::pci(address)
        );
        let file = persistent::rule("maxread", &address.to_string(), rule);
        plan.step("maxread", persistent::WHY, file, false);
    }
}
