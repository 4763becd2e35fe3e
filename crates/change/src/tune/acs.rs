//! PCIe access control sends traffic between a GPU and a NIC up to the root and back. Switching it off takes a
//! wall down between virtual machines, so it is advice and never done by itself.

use doctor::Case;
use doctor::limits::acs;
use node::{Address, Seen};

use super::Ask;
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    let case = Case::new(ask.node, ask.tree);
    let redirecting = |address: &Address| {
        let function = ask.node.pci.get(address);
        function.is_some_and(
            |function| matches!(&function.acs, Seen::Value(acs) if acs::redirects(*acs)),
        )
    };
    let bridges: Vec<Address> = acs::bridges(&case).into_iter().filter(redirecting).collect();
    if bridges.is_empty() {
        return;
    }
    let why = format!(
        "{} PCIe bridges send traffic between GPUs and NICs by the root: GPUDirect is slow or fails. \
         Only where no virtual machine has a device of its own; it is gone with a restart, so set it in the \
         BIOS if that has a switch for it",
        bridges.len()
    );
    let command = |address: &Address| format!("setpci -s {address} ECAP_ACS+0x6.w=0000");
    plan.advise("acs", why, bridges.iter().map(command).collect());
}
