//! What likely limits a run, the most likely first.

use report::Likely;
use report::nccl::Run;

use super::Transferred;
use super::ports::Ports;
use crate::{Case, Finding, Verdict, check};

/// Between nodes.
pub(super) fn between(
    run: &Run,
    node: Option<&Case<'_>>,
    transferred: Option<&Transferred>,
    ports: Option<&Ports>,
) -> Vec<Likely> {
    let mut likely = Vec::new();
    if let Some(tcp) = tcp(run, transferred, ports) {
        // What RDMA lacks does not matter where it is not used.
        likely.push(tcp);
        likely.extend(node.into_iter().flat_map(|case| found(case, &WHY_NOT_RDMA)));
        return likely;
    }
    likely.extend(no_gpu_direct(run, node));
    likely.extend(ports.and_then(idle_rails));
    likely.extend(ports.into_iter().flat_map(Ports::narrow_slots).map(|(slot, lines)| Likely {
        what: format!("the {}", slot.what),
        evidence: format!(
            "{}: {:.1} Gb/s, and its lines could carry {lines:.1}",
            slot.evidence, slot.gbps
        ),
        fix: Some("see `wirelane doctor pcie`: another slot may be wider".to_owned()),
    }));
    likely.extend(node.into_iter().flat_map(|case| found(case, &SLOWING)));
    likely
}

/// Within a node: GPUs that go through the host's memory.
pub(super) fn within(run: &Run) -> Vec<Likely> {
    let channels = run.heard.channels;
    let staged = (channels.shared_memory > 0 && channels.peer == 0).then(|| Likely {
        what: "GPUs do not reach each other: all goes through the host's memory".to_owned(),
        evidence: format!("{} channels go via SHM, none via P2P", channels.shared_memory),
        fix: Some("see `wirelane topo`; ACS, the IOMMU or NCCL_P2P_DISABLE may forbid it, and some GPUs cannot".to_owned()),
    });
    staged.into_iter().collect()
}

fn tcp(run: &Run, transferred: Option<&Transferred>, ports: Option<&Ports>) -> Option<Likely> {
    let disabled = run.environment.get("NCCL_IB_DISABLE").and_then(Option::as_deref);
    let disabled = disabled.is_some_and(|value| value.trim() != "0");
    let idle = ports.is_some() && transferred.is_some_and(Transferred::is_idle);
    let evidence = if run.heard.is_tcp() {
        match run.heard.channels.socket {
            0 => "it says that its network is Socket".to_owned(),
            channels => format!("{channels} channels go via NET/Socket"),
        }
    } else if disabled {
        "NCCL_IB_DISABLE is set".to_owned()
    } else if idle {
        "the RDMA ports of this node transferred nothing meanwhile".to_owned()
    } else {
        return None;
    };
    Some(Likely {
        what: "TCP, not RDMA".to_owned(),
        evidence,
        fix: Some(
            "`wirelane env` says which ports NCCL should use and why others are dropped".to_owned(),
        ),
    })
}

fn no_gpu_direct(run: &Run, node: Option<&Case<'_>>) -> Option<Likely> {
    let heard = run.heard.gpu_direct();
    let check = check("gpudirect").filter(|_| heard != Some(true));
    let findings = node.zip(check).map(|(case, check)| check.look(case)).unwrap_or_default();
    let bad = findings.into_iter().find(|finding| finding.verdict >= Verdict::Warning);
    if heard != Some(false) && bad.is_none() {
        return None;
    }
    let said = (heard == Some(false)).then(|| match run.heard.channels.staged {
        0 => "NCCL says that GPU Direct RDMA is disabled".to_owned(),
        channels => format!("{channels} channels go by NICs without GDRDMA"),
    });
    let seen =
        bad.as_ref().map(|finding| format!("`wirelane doctor gpudirect`: {}", finding.summary));
    let evidence: Vec<String> = said.into_iter().chain(seen).collect();
    Some(Likely {
        what: "no GPUDirect".to_owned(),
        evidence: evidence.join("; "),
        fix: bad
            .and_then(|finding| finding.fix.first().cloned())
            .or_else(|| Some(GPU_DIRECT.to_owned())),
    })
}

fn idle_rails(ports: &Ports) -> Option<Likely> {
    (!ports.idle.is_empty()).then(|| Likely {
        what: format!(
            "{} of {} rails are used",
            ports.used_count(),
            ports.used_count() + ports.idle.len()
        ),
        evidence: format!("{} is active and carries nothing", ports.idle.join(", ")),
        fix: Some("`wirelane env` names all that can be used, in NCCL_IB_HCA".to_owned()),
    })
}

/// What these checks of the doctor find.
fn found(case: &Case<'_>, checks: &[&str]) -> Vec<Likely> {
    let looked = checks.iter().filter_map(|name| check(name)).flat_map(|check| check.look(case));
    let bad = looked.filter(|finding| finding.verdict >= Verdict::Warning);
    bad.map(|finding| told(&finding)).take(MAX_FOUND).collect()
}

fn told(finding: &Finding) -> Likely {
    Likely {
        what: format!("{}: {}", finding.subject(), finding.summary),
        evidence: format!("`wirelane doctor {}`", finding.check),
        fix: finding.fix.first().cloned(),
    }
}

/// Checks whose findings make NCCL slow, the costliest first.
const SLOWING: [&str; 12] = [
    "rate",
    "pcie",
    "iommu",
    "acs",
    "numa",
    "read-request",
    "losses",
    "link-errors",
    "congestion",
    "flow-control",
    "mtu",
    "governor",
];
/// Checks whose findings keep NCCL from RDMA.
const WHY_NOT_RDMA: [&str; 6] = ["ports", "modules", "rights", "memlock", "gid", "iommu"];

const GPU_DIRECT: &str = "modprobe nvidia-peermem, or NVIDIA's open kernel modules, which give DMA-BUF; see \
                          `wirelane doctor gpudirect`";
const MAX_FOUND: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_one() {
        for name in SLOWING.iter().chain(&WHY_NOT_RDMA) {
            assert!(check(name).is_some(), "{name}");
        }
    }
}
