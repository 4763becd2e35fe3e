//! PCIe bridges that redirect traffic between a GPU and a NIC to the root complex.

use node::{Acs, Reading};

use crate::expected::acs::{bridges, redirects};
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "acs",
    title: "PCIe switches do not redirect traffic between GPUs and NICs (ACS)",
    why: "Access control services (ACS) on a PCIe switch redirect traffic between a NIC and a GPU \
          below it to the root complex and back. GPUDirect then fails with a local protection \
          error (status 4, vendor error 81), or is slow.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for address in bridges(input) {
        let Some(function) = input.function(address) else { continue };
        let name = address.to_string();
        let source = format!("{}/config", address.folder());
        findings.push(match &function.acs {
            Reading::Value(acs) if redirects(*acs) => redirecting(&name, &source, *acs),
            Reading::Value(acs) => Finding::ok(name, "ACS redirects nothing")
                .evidence(Evidence::new(source, flags(*acs))),
            Reading::Absent if input.tree.exists(&source) => Finding::ok(name, "has no ACS"),
            other => Finding::unknown(name, "reading whether ACS is on requires root")
                .evidence(Evidence::new(source, other.why_not().unwrap_or_default()))
                .fix("Run the doctor as root."),
        });
    }
    findings
}

fn redirecting(name: &str, source: &str, acs: Acs) -> Finding {
    Finding::problem(name, "ACS is on at a PCIe bridge between a GPU and an RDMA NIC")
        .evidence(Evidence::new(source, flags(acs)))
        .fix(format!("setpci -s {name} ECAP_ACS+0x6.w=0000 (as root; lost at reboot)"))
        .fix(
            "Permanently: disable ACS in the firmware setup. Virtual machines with passed-through \
             devices need it on.",
        )
}

fn flags(acs: Acs) -> String {
    let sign = |on: bool| if on { '+' } else { '-' };
    format!(
        "ACSCtl: SrcValid{} ReqRedir{} CmpltRedir{} UpstreamFwd{}",
        sign(acs.source_validation),
        sign(acs.request_redirect),
        sign(acs.completion_redirect),
        sign(acs.upstream_forwarding)
    )
}
