//! PCIe access control sends traffic between a GPU and a NIC up to the root and back. Switching it off takes a
//! wall down between virtual machines, so it is advice and never done by itself.

use node::{Acs, Address, Seen};

use super::Ask;
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.node.gpus.is_empty() {
        return;
    }
    let redirects = |acs: &Acs| {
        acs.source_validation
            || acs.request_redirect
            || acs.completion_redirect
            || acs.upstream_forwarding
    };
    let bridges: Vec<Address> = ask
        .node
        .pci
        .values()
        .filter(|function| matches!(&function.acs, Seen::Value(acs) if redirects(acs)))
        .map(|function| function.address)
        .collect();
    if bridges.is_empty() {
        return;
    }
    let why = format!(
        "{} PCIe functions send traffic between GPUs and NICs by the root: GPUDirect is slow or fails. \
         Only where no virtual machine has a device of its own; it is gone with a restart, so set it in the \
         BIOS if that has a switch for it",
        bridges.len()
    );
    let command = |address: &Address| format!("setpci -s {address} ECAP_ACS+0x6.w=0000");
    plan.advise("acs", why, bridges.iter().map(command).collect());
}
