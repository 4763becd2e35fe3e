//! PCIe reads of 4096 bytes: with small read requests a NIC cannot saturate a fast link.

use doctor::expected::pcie::READ_REQUEST;

use super::{Context, Profile, persistent, udev};
use crate::{Change, Plan, State, Target};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.profile != Profile::Throughput {
        return;
    }
    for (device, address) in context.physical() {
        let function = context.node.pci.get(&address);
        let Some(now) = function.and_then(|function| function.max_read_request) else { continue };
        if now >= READ_REQUEST {
            continue;
        }
        let why = format!("{} reads at most {now} bytes per PCIe request", device.name);
        let target = Target::ReadRequest { pci: address.to_string() };
        let change = Change { target, wanted: State::all(READ_REQUEST.to_string(), 1) };
        plan.step("read-request", why, change, false);
        let rule = format!(
            "{}, RUN+=\"/usr/bin/setpci -s {address} CAP_EXP+8.w=5000:7000\"",
            udev::pci(address)
        );
        let file = persistent::rule("read-request", &address.to_string(), rule);
        plan.step("read-request", persistent::WHY, file, false);
    }
}
