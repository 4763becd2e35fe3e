//! The PCIe maximum read request size of NICs.

use crate::expected::pcie::{MIN_READ_REQUEST, READ_REQUEST};
use crate::input::{is_software, is_virtual};
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "read-request",
    title: "the PCIe read request size of NICs is large enough",
    why: "To send data, a NIC reads memory in PCIe requests of at most this size. If firmware set \
          it very small, headers take a large part of the PCIe link.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let nics =
        input.devices().into_iter().filter(|device| !is_software(device) && !is_virtual(device));
    let known = nics.filter_map(|device| {
        let address = device.pci?;
        let bytes = input.function(address)?.max_read_request?;
        let evidence = Evidence::new(
            format!("{}/config", address.folder()),
            format!("MaxReadReq {bytes} bytes"),
        );
        let finding = if bytes < MIN_READ_REQUEST {
            Finding::note(&*device.name, format!("PCIe read requests of {bytes} bytes")).fix(format!(
                "Firmware setup: PCIe Max Read Request {READ_REQUEST}; `wirelane tune plan` prints \
                 the command for this NIC."
            ))
        } else {
            Finding::ok(&*device.name, format!("PCIe read requests of {bytes} bytes"))
        };
        Some(finding.evidence(evidence))
    });
    known.collect()
}
