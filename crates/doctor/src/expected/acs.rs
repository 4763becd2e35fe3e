//! PCIe access control services (ACS) between GPUs and RDMA NICs: off.

use std::collections::BTreeSet;

use node::{Acs, Address};

use crate::CheckInput;

/// Whether it redirects traffic between devices below a bridge to the root complex.
pub fn redirects(acs: Acs) -> bool {
    acs.request_redirect || acs.completion_redirect || acs.upstream_forwarding
}

/// Bridges between a GPU and a NIC below the same switch. Where the path passes the root complex, ACS makes no
/// difference.
pub fn bridges(input: &CheckInput<'_>) -> BTreeSet<Address> {
    let mut bridges = BTreeSet::new();
    let nics: Vec<_> =
        input.devices().into_iter().filter_map(|device| input.function(device.pci?)).collect();
    for gpu in input.gpus().into_iter().filter_map(|gpu| input.function(gpu.pci)) {
        for nic in &nics {
            let Some(common) = gpu.above.iter().find(|bridge| nic.above.contains(bridge)) else {
                continue;
            };
            let below = |above: &[Address]| -> Vec<Address> {
                above.iter().copied().take_while(|bridge| bridge != common).collect()
            };
            bridges.extend(below(&gpu.above));
            bridges.extend(below(&nic.above));
        }
    }
    bridges
}
