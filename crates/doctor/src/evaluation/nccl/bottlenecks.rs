//! Likely bottlenecks of a run, the most likely first.

use report::Bottleneck;
use report::nccl::Run;

use super::Transferred;
use super::ports::Ports;
use crate::{CheckInput, Finding, Severity, check};

/// Of a run on several nodes.
pub(super) fn between(
    run: &Run,
    node: Option<&CheckInput<'_>>,
    transferred: Option<&Transferred>,
    ports: Option<&Ports>,
) -> Vec<Bottleneck> {
    let mut bottlenecks = Vec::new();
    if let Some(tcp) = tcp(run, transferred, ports) {
        // Findings on RDMA do not matter if it is not used.
        bottlenecks.push(tcp);
        bottlenecks.extend(node.into_iter().flat_map(|input| findings(input, &RDMA_CHECKS)));
        return bottlenecks;
    }
    bottlenecks.extend(no_gpu_direct(run, node));
    bottlenecks.extend(ports.and_then(idle_rails));
    bottlenecks.extend(ports.into_iter().flat_map(Ports::narrow_slots).map(|(slot, links)| {
        Bottleneck {
            what: format!("the {}", slot.what),
            evidence: format!(
                "{}: {:.1} Gb/s, but its links have {links:.1}",
                slot.evidence, slot.gbps
            ),
            fix: Some("see `wirelane doctor pcie`: another slot may be wider".to_owned()),
        }
    }));
    bottlenecks.extend(node.into_iter().flat_map(|input| findings(input, &NCCL_SLOWING_CHECKS)));
    bottlenecks
}

/// Of a run on one node: GPUs that communicate through host memory.
pub(super) fn within(run: &Run) -> Vec<Bottleneck> {
    let channels = run.nccl_log.channels;
    let staged = (channels.shared_memory > 0 && channels.peer == 0).then(|| Bottleneck {
        what: "no P2P between GPUs: data is copied through host memory".to_owned(),
        evidence: format!("{} channels via SHM, none via P2P", channels.shared_memory),
        fix: Some("see `wirelane topo`; ACS, the IOMMU or NCCL_P2P_DISABLE may prevent it, and some GPUs do not support it".to_owned()),
    });
    staged.into_iter().collect()
}

fn tcp(run: &Run, transferred: Option<&Transferred>, ports: Option<&Ports>) -> Option<Bottleneck> {
    let disabled = run.environment.get("NCCL_IB_DISABLE").and_then(Option::as_deref);
    let disabled = disabled.is_some_and(|value| value.trim() != "0");
    let idle = ports.is_some() && transferred.is_some_and(Transferred::is_idle);
    let evidence = if run.nccl_log.is_tcp() {
        match run.nccl_log.channels.socket {
            0 => "NCCL reports network Socket".to_owned(),
            channels => format!("{channels} channels via NET/Socket"),
        }
    } else if disabled {
        "NCCL_IB_DISABLE is set".to_owned()
    } else if idle {
        "the RDMA ports of this node transferred nothing during the run".to_owned()
    } else {
        return None;
    };
    Some(Bottleneck {
        what: "TCP, not RDMA".to_owned(),
        evidence,
        fix: Some(
            "`wirelane env` prints which ports NCCL should use, and why not others".to_owned(),
        ),
    })
}

fn no_gpu_direct(run: &Run, node: Option<&CheckInput<'_>>) -> Option<Bottleneck> {
    let logged = run.nccl_log.gpu_direct();
    let check = check("gpudirect").filter(|_| logged != Some(true));
    let findings = node.zip(check).map(|(input, check)| check.findings(input)).unwrap_or_default();
    let bad = findings.into_iter().find(|finding| finding.severity >= Severity::Warning);
    if logged != Some(false) && bad.is_none() {
        return None;
    }
    let from_log = (logged == Some(false)).then(|| match run.nccl_log.channels.staged {
        0 => "NCCL reports that GPU Direct RDMA is disabled".to_owned(),
        channels => format!("{channels} channels use NICs without GDRDMA"),
    });
    let from_check =
        bad.as_ref().map(|finding| format!("`wirelane doctor gpudirect`: {}", finding.summary));
    let evidence: Vec<String> = from_log.into_iter().chain(from_check).collect();
    Some(Bottleneck {
        what: "no GPUDirect".to_owned(),
        evidence: evidence.join("; "),
        fix: bad
            .and_then(|finding| finding.fix.first().cloned())
            .or_else(|| Some(GPU_DIRECT.to_owned())),
    })
}

fn idle_rails(ports: &Ports) -> Option<Bottleneck> {
    (!ports.idle.is_empty()).then(|| Bottleneck {
        what: format!(
            "{} of {} rails in use",
            ports.used_count(),
            ports.used_count() + ports.idle.len()
        ),
        evidence: format!("active but idle: {}", ports.idle.join(", ")),
        fix: Some("`wirelane env` sets NCCL_IB_HCA to all usable ports".to_owned()),
    })
}

/// Warnings and problems of these checks.
fn findings(input: &CheckInput<'_>, checks: &[&str]) -> Vec<Bottleneck> {
    let all = checks.iter().filter_map(|name| check(name)).flat_map(|check| check.findings(input));
    let bad = all.filter(|finding| finding.severity >= Severity::Warning);
    bad.map(|finding| from_finding(&finding)).take(MAX_FINDINGS).collect()
}

fn from_finding(finding: &Finding) -> Bottleneck {
    Bottleneck {
        what: format!("{}: {}", finding.subject(), finding.summary),
        evidence: format!("`wirelane doctor {}`", finding.check),
        fix: finding.fix.first().cloned(),
    }
}

/// Checks whose findings make NCCL slow, the most costly first.
const NCCL_SLOWING_CHECKS: [&str; 12] = [
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
/// Checks whose findings prevent RDMA.
const RDMA_CHECKS: [&str; 6] = ["ports", "modules", "permissions", "memlock", "gid", "iommu"];

const GPU_DIRECT: &str = "modprobe nvidia-peermem, or install NVIDIA's open kernel modules for DMA-BUF; see \
                          `wirelane doctor gpudirect`";
const MAX_FINDINGS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_exists() {
        for name in NCCL_SLOWING_CHECKS.iter().chain(&RDMA_CHECKS) {
            assert!(check(name).is_some(), "{name}");
        }
    }
}
