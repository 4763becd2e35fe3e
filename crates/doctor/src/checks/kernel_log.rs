//! Errors in the kernel log about NICs, PCIe, the IOMMU and GPUs.

use node::queries::{LogKind, LogLine};

use crate::{Check, CheckInput, Evidence, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "kernel-log",
    title: "the kernel log has no errors about the fabric",
    why: "Drivers log here first when a NIC's firmware hangs, a PCIe link has errors, a GPU is \
          lost, or the IOMMU blocks an access. Programs see only the consequences.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let Some(log) = input.tree.query_results().kernel_log() else {
        return vec![Finding::unknown("host", "the kernel log is not part of the snapshot")];
    };
    if let Some(errno) = log.refused {
        return vec![
            Finding::unknown("host", "this user may not read the kernel log")
                .evidence(Evidence::new("/dev/kmsg", format!("errno {errno}")))
                .fix("Run the doctor as root, or allow it: `sysctl kernel.dmesg_restrict=0`."),
        ];
    }
    let findings: Vec<Finding> =
        KINDS.iter().flat_map(|kind| check_kind(input, &log.lines, *kind)).collect();
    if findings.is_empty() {
        return vec![Finding::ok("host", "the kernel log has no errors about the fabric")];
    }
    findings
}

/// The worst lines of a kind as one finding.
fn check_kind(input: &CheckInput<'_>, lines: &[LogLine], kind: LogKind) -> Vec<Finding> {
    let graded: Vec<(Severity, &LogLine)> = lines
        .iter()
        .filter(|line| line.kind == kind)
        .filter_map(|line| Some((grade(input, line)?, line)))
        .collect();
    let Some(worst) = graded.iter().map(|(severity, _)| *severity).max() else { return Vec::new() };
    let (what, fix) = summary_and_fix(kind, worst);
    let worst_lines: Vec<&LogLine> =
        graded.iter().filter(|(severity, _)| *severity == worst).map(|(_, line)| *line).collect();
    let last = worst_lines.iter().rev().take(MAX_LINES).rev();
    let finding = Finding::new(worst, "host", format!("{what} ({})", count(worst_lines.len())));
    let finding = finding.evidence_all(last.map(|line| {
        Evidence::new(format!("kernel log, {:.3} s", line.at_us as f64 / 1e6), &line.text)
    }));
    vec![finding.fix(fix)]
}

fn count(lines: usize) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}

/// The severity of a line; `None`: it is harmless.
fn grade(input: &CheckInput<'_>, line: &LogLine) -> Option<Severity> {
    let text = line.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match line.kind {
        LogKind::Link if has(&["event[error]", "cable error"]) => Some(Severity::Warning),
        LogKind::Link => None,
        LogKind::Health if has(&["access_reg("]) => Some(Severity::Note),
        LogKind::Health
            if has(&["compromised", "fatal", "assert", "unhealthy", "no longer", "dead"]) =>
        {
            Some(Severity::Problem)
        }
        LogKind::Health => Some(Severity::Warning),
        // Kept in older snapshots: the kernel prints this for each port at boot.
        LogKind::PcieError if has(&["enabled with irq"]) => None,
        LogKind::PcieError
            if has(&[
                "severity=corrected",
                "severity=correctable",
                "corrected error",
                "correctable",
            ]) =>
        {
            // "Uncorrectable" contains "correctable".
            if has(&["uncorrect"]) { Some(Severity::Problem) } else { Some(Severity::Note) }
        }
        LogKind::PcieError
            if has(&["fatal", "uncorrect", "containment event", "recovery failed"]) =>
        {
            Some(Severity::Problem)
        }
        LogKind::PcieError => Some(Severity::Warning),
        LogKind::Xid if xid(&text).is_some_and(|number| FATAL_XIDS.contains(&number)) => {
            Some(Severity::Problem)
        }
        LogKind::Xid => Some(Severity::Warning),
        LogKind::Iommu if names_checked_device(input, &text) => Some(Severity::Problem),
        LogKind::Iommu => Some(Severity::Warning),
    }
}

/// The number of `Xid (PCI:0000:1b:00): 79, …`.
fn xid(text: &str) -> Option<u32> {
    let after = text.split_once("xid")?.1.split_once("):")?.1.trim_start();
    let digits = after.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether the line names one of the devices or GPUs to check: `[3b:00.0]`, `0000:3b:00.0`.
fn names_checked_device(input: &CheckInput<'_>, text: &str) -> bool {
    let nics = input.devices().into_iter().filter_map(|device| device.pci);
    let mut all = nics.chain(input.gpus().into_iter().map(|gpu| gpu.pci));
    all.any(|address| {
        let full = address.to_string();
        full.split_once(':').is_some_and(|(_, short)| text.contains(short))
    })
}

fn summary_and_fix(kind: LogKind, severity: Severity) -> (&'static str, &'static str) {
    match (kind, severity) {
        (LogKind::Health, Severity::Note) => (
            "the NIC refuses register access to a function",
            "A program on this machine reads a function that belongs to another manager: exclude it \
             from monitoring (`wirelane doctor unreadable-counters`).",
        ),
        (LogKind::Health, _) => (
            "a driver reports an unhealthy NIC",
            "`wirelane explain 'LINE'` explains each line. Update the NIC's firmware; if the error \
             recurs, power-cycle the machine, then replace the NIC.",
        ),
        (LogKind::PcieError, Severity::Note) => (
            "corrected PCIe errors",
            "If there are many: reseat the card; `wirelane doctor aer` prints the counters.",
        ),
        (LogKind::PcieError, _) => (
            "PCIe errors",
            "Reseat the card and its riser, update firmware; `wirelane doctor aer` prints the \
             counters, `wirelane doctor pcie` checks the links.",
        ),
        (LogKind::Xid, _) => (
            "the GPU driver reports errors (Xid)",
            "`wirelane explain 'LINE'` explains the number; a lost GPU needs a reboot.",
        ),
        (LogKind::Iommu, _) => {
            ("the IOMMU blocked accesses", "Use passthrough mode: `wirelane doctor iommu`.")
        }
        (LogKind::Link, _) => (
            "cable or transceiver errors",
            "Let the module cool if it is hot; reseat it, then replace it.",
        ),
    }
}

/// GPU fell off the bus; uncorrectable memory errors; NVLink failed; contained and uncontained memory errors.
const FATAL_XIDS: &[u32] = &[48, 74, 79, 94, 95, 119, 120];
const KINDS: &[LogKind] =
    &[LogKind::Health, LogKind::PcieError, LogKind::Iommu, LogKind::Xid, LogKind::Link];
/// Lines listed as evidence.
const MAX_LINES: usize = 3;
