//! Bridges that send traffic between a GPU and a card up to the root.

use node::{Acs, Seen};

use crate::limits::acs::{bridges, redirects};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "acs",
    title: "PCIe switches let GPUs and cards talk directly",
    why: "Access control services (ACS) on a PCIe switch send what a card and a GPU below it say \
          to each other up to the root and back. GPUDirect then fails with a local protection \
          error (status 4, vendor error 81), or is slow.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for address in bridges(case) {
        let Some(function) = case.function(address) else { continue };
        let name = address.to_string();
        let source = format!("{}/config", address.folder());
        findings.push(match &function.acs {
            Seen::Value(acs) if redirects(*acs) => redirecting(&name, &source, *acs),
            Seen::Value(acs) => {
                Finding::ok(name, "ACS redirects nothing").read(Evidence::new(source, words(*acs)))
            }
            Seen::Absent if case.tree.exists(&source) => Finding::ok(name, "has no ACS"),
            other => Finding::unknown(name, "whether ACS is on needs root to read")
                .read(Evidence::new(source, other.why_not().unwrap_or_default()))
                .fix("Run the doctor as root."),
        });
    }
    findings
}

fn redirecting(name: &str, source: &str, acs: Acs) -> Finding {
    Finding::problem(name, "ACS is on at a bridge between a GPU and an RDMA card")
        .read(Evidence::new(source, words(acs)))
        .fix(format!("setpci -s {name} ECAP_ACS+0x6.w=0000 (as root; lost at restart)"))
        .fix(
            "To keep it so: switch ACS off in the firmware set-up. Virtual machines with their \
             own devices need it on.",
        )
}

fn words(acs: Acs) -> String {
    let sign = |on: bool| if on { '+' } else { '-' };
    format!(
        "ACSCtl: SrcValid{} ReqRedir{} CmpltRedir{} UpstreamFwd{}",
        sign(acs.source_validation),
        sign(acs.request_redirect),
        sign(acs.completion_redirect),
        sign(acs.upstream_forwarding)
    )
}
