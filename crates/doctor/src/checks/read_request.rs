//! How much a card asks for in one read of memory.

use crate::case::{is_software, is_virtual};
use crate::limits::pcie::{MIN_READ_REQUEST, READ_REQUEST};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "read-request",
    title: "cards ask for enough in one read of memory",
    why: "A card that sends reads memory in requests of at most this size. Where firmware set it \
          very small, requests take more of the link than data does.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cards =
        case.devices().into_iter().filter(|device| !is_software(device) && !is_virtual(device));
    let known = cards.filter_map(|device| {
        let address = device.pci?;
        let bytes = case.function(address)?.max_read_request?;
        let evidence = Evidence::new(
            format!("{}/config", address.folder()),
            format!("MaxReadReq {bytes} bytes"),
        );
        let finding = if bytes < MIN_READ_REQUEST {
            Finding::note(&*device.name, format!("reads memory in requests of {bytes} bytes")).fix(format!(
                "Firmware set-up: PCIe Max Read Request {READ_REQUEST}; `wirelane tune plan` shows \
                 the command for this card."
            ))
        } else {
            Finding::ok(&*device.name, format!("reads memory in requests of {bytes} bytes"))
        };
        Some(finding.read(evidence))
    });
    known.collect()
}
