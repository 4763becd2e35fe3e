//! PCIe access control services (ACS) redirect traffic between a GPU and a NIC through the root complex. Without ACS virtual
//! machines are not isolated, so switching it off is advice and never done automatically.

use doctor::CheckInput;
use doctor::expected::acs;
use node::{Address, Reading};

use super::Context;
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let input = CheckInput::new(context.node, context.tree);
    let redirecting = |address: &Address| {
        let function = context.node.pci.get(address);
        function.is_some_and(
            |function| matches!(&function.acs, Reading::Value(acs) if acs::redirects(*acs)),
        )
    };
    let bridges: Vec<Address> = acs::bridges(&input).into_iter().filter(redirecting).collect();
    if bridges.is_empty() {
        return;
    }
    let why = format!(
        "ACS of {} PCIe bridges redirects traffic between GPUs and NICs through the root complex: GPUDirect is slow or fails. \
         Switch it off only where no device is assigned to a virtual machine; the command is lost at a restart, so prefer \
         a BIOS setting",
        bridges.len()
    );
    let command = |address: &Address| format!("setpci -s {address} ECAP_ACS+0x6.w=0000");
    plan.advise("acs", why, bridges.iter().map(command).collect());
}
