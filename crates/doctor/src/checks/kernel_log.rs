//! Errors in the kernel's log about cards, buses and GPUs.

use node::answers::{LogKind, LogLine};

use crate::{Case, Check, Evidence, Finding, Verdict};

pub(super) const CHECK: Check = Check {
    name: "kernel-log",
    title: "the kernel's log has no complaint about the fabric",
    why: "Drivers write there first when a card's firmware hangs, a bus has errors, a GPU is \
          lost, or the IOMMU stops an access. Programs see only what follows from it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(log) = case.tree.answers().kernel_log() else {
        return vec![Finding::unknown(
            "host",
            "the kernel's log is not part of what was looked at",
        )];
    };
    if let Some(errno) = log.refused {
        return vec![
            Finding::unknown("host", "the kernel's log may not be read by this user")
                .read(Evidence::new("/dev/kmsg", format!("errno {errno}")))
                .fix("Run the doctor as root, or allow it: `sysctl kernel.dmesg_restrict=0`."),
        ];
    }
    let findings: Vec<Finding> =
        KINDS.iter().flat_map(|kind| of_kind(case, &log.lines, *kind)).collect();
    if findings.is_empty() {
        return vec![Finding::ok("host", "the kernel's log has no complaint about the fabric")];
    }
    findings
}

/// The lines of a kind, those that are equally bad together.
fn of_kind(case: &Case<'_>, lines: &[LogLine], kind: LogKind) -> Vec<Finding> {
    let graded: Vec<(Verdict, &LogLine)> = lines
        .iter()
        .filter(|line| line.kind == kind)
        .filter_map(|line| Some((grade(case, line)?, line)))
        .collect();
    let Some(worst) = graded.iter().map(|(verdict, _)| *verdict).max() else { return Vec::new() };
    let (what, fix) = words(kind, worst);
    let worst_lines: Vec<&LogLine> =
        graded.iter().filter(|(verdict, _)| *verdict == worst).map(|(_, line)| *line).collect();
    let last = worst_lines.iter().rev().take(MAX_SHOWN).rev();
    let finding =
        Finding::new(worst, "host", format!("{what}: {} of it", count(worst_lines.len())));
    let finding = finding.read_all(last.map(|line| {
        Evidence::new(format!("kernel log, {:.3} s", line.at_us as f64 / 1e6), &line.text)
    }));
    vec![finding.fix(fix)]
}

fn count(lines: usize) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}

/// How bad a line is; `None`: it is usual.
fn grade(case: &Case<'_>, line: &LogLine) -> Option<Verdict> {
    let text = line.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match line.kind {
        LogKind::Link if has(&["event[error]", "cable error"]) => Some(Verdict::Warning),
        LogKind::Link => None,
        LogKind::Health if has(&["access_reg("]) => Some(Verdict::Note),
        LogKind::Health
            if has(&["compromised", "fatal", "assert", "unhealthy", "no longer", "dead"]) =>
        {
            Some(Verdict::Problem)
        }
        LogKind::Health => Some(Verdict::Warning),
        // Kept in older snapshots: at every start the kernel tells of the ports that watch.
        LogKind::PcieError if has(&["enabled with irq"]) => None,
        LogKind::PcieError
            if has(&[
                "severity=corrected",
                "severity=correctable",
                "corrected error",
                "correctable",
            ]) =>
        {
            // "Uncorrectable" has the same letters in it.
            if has(&["uncorrect"]) { Some(Verdict::Problem) } else { Some(Verdict::Note) }
        }
        LogKind::PcieError
            if has(&["fatal", "uncorrect", "containment event", "recovery failed"]) =>
        {
            Some(Verdict::Problem)
        }
        LogKind::PcieError => Some(Verdict::Warning),
        LogKind::Xid if xid(&text).is_some_and(|number| LOST_GPU.contains(&number)) => {
            Some(Verdict::Problem)
        }
        LogKind::Xid => Some(Verdict::Warning),
        LogKind::Iommu if names_ours(case, &text) => Some(Verdict::Problem),
        LogKind::Iommu => Some(Verdict::Warning),
    }
}

/// The number of `Xid (PCI:0000:1b:00): 79, …`.
fn xid(text: &str) -> Option<u32> {
    let after = text.split_once("xid")?.1.split_once("):")?.1.trim_start();
    let digits = after.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether the line names a device or GPU of ours: `[3b:00.0]`, `0000:3b:00.0`.
fn names_ours(case: &Case<'_>, text: &str) -> bool {
    let cards = case.devices().into_iter().filter_map(|device| device.pci);
    let mut all = cards.chain(case.gpus().into_iter().map(|gpu| gpu.pci));
    all.any(|address| {
        let full = address.to_string();
        full.split_once(':').is_some_and(|(_, short)| text.contains(short))
    })
}

fn words(kind: LogKind, verdict: Verdict) -> (&'static str, &'static str) {
    match (kind, verdict) {
        (LogKind::Health, Verdict::Note) => (
            "the card refuses registers to this function",
            "A function of another manager is read by something here: leave it out of monitoring \
             (`wirelane doctor restricted`).",
        ),
        (LogKind::Health, _) => (
            "a card's driver complains of the card",
            "`wirelane explain 'LINE'` says what each means. Update the card's firmware; if it \
             comes again, restart the machine with power off, then replace the card.",
        ),
        (LogKind::PcieError, Verdict::Note) => (
            "PCIe errors that were corrected",
            "Many of them: reseat the card; `wirelane doctor aer` counts.",
        ),
        (LogKind::PcieError, _) => (
            "PCIe errors",
            "Reseat the card and its riser, update firmware; `wirelane doctor aer` counts, \
             `wirelane doctor pcie` looks at links.",
        ),
        (LogKind::Xid, _) => (
            "the GPU's driver reports errors (Xid)",
            "Look the number up by `wirelane explain 'LINE'`; a lost GPU needs a restart.",
        ),
        (LogKind::Iommu, _) => {
            ("the IOMMU stopped accesses", "Pass devices through: `wirelane doctor iommu`.")
        }
        (LogKind::Link, _) => (
            "a cable or transceiver has an error",
            "Let it cool if it is hot; reseat it, then replace it.",
        ),
    }
}

/// GPU fell off the bus; memory beyond repair; NVLink down; contained and uncontained memory errors.
const LOST_GPU: &[u32] = &[48, 74, 79, 94, 95, 119, 120];
const KINDS: &[LogKind] =
    &[LogKind::Health, LogKind::PcieError, LogKind::Iommu, LogKind::Xid, LogKind::Link];
const MAX_SHOWN: usize = 3;
