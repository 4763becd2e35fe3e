//! A checklist for machines in production, evaluated from the checks.

use serde::Serialize;

use super::{CheckInput, Finding, Report, Verdict};

/// An item of the list.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// What should be true.
    pub title: &'static str,
    /// Whether it is true.
    pub state: State,
    /// The finding that decided.
    pub why: Option<String>,
    /// The checks that decide; `wirelane doctor CHECK` prints details.
    pub checks: &'static [&'static str],
}

/// Whether an item is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is true.
    Done,
    /// It is false.
    NotDone,
    /// It cannot be determined here.
    Unknown,
    /// It does not apply to this machine.
    DoesNotApply,
}

/// Evaluates the list from a report of all checks.
pub fn evaluate(input: &CheckInput<'_>, report: &Report) -> Vec<Item> {
    let first = Item {
        title: "RDMA device present",
        state: if input.node.devices.is_empty() { State::NotDone } else { State::Done },
        why: report.devices.first().map(|name| match report.devices.len() {
            1 => name.clone(),
            many => format!("{name} and {} more", many - 1),
        }),
        checks: &[],
    };
    std::iter::once(first).chain(ROWS.iter().map(|row| row.check(report))).collect()
}

struct ChecklistRow {
    title: &'static str,
    checks: &'static [&'static str],
    /// The mildest verdict with which it is not done.
    not_done_from: Verdict,
}

impl ChecklistRow {
    fn check(&self, report: &Report) -> Item {
        let decides = |finding: &&Finding| self.checks.contains(&finding.check);
        let worst = report
            .findings
            .iter()
            .filter(decides)
            .max_by_key(|finding| self.weight(finding.verdict));
        let state = match worst.map(|finding| finding.verdict) {
            None => State::DoesNotApply,
            Some(Verdict::Unknown) => State::Unknown,
            Some(verdict) if verdict >= self.not_done_from => State::NotDone,
            Some(_) => State::Done,
        };
        let why = worst.map(|finding| format!("{}: {}", finding.subject(), finding.summary));
        Item { title: self.title, state, why, checks: self.checks }
    }

    /// Not done weighs more than unknown, and unknown more than done.
    fn weight(&self, verdict: Verdict) -> (u8, Verdict) {
        match verdict {
            Verdict::Unknown => (1, verdict),
            verdict if verdict >= self.not_done_from => (2, verdict),
            verdict => (0, verdict),
        }
    }
}

const fn row(
    title: &'static str,
    checks: &'static [&'static str],
    not_done_from: Verdict,
) -> ChecklistRow {
    ChecklistRow { title, checks, not_done_from }
}

const ROWS: &[ChecklistRow] = &[
    row("ports active", &["ports"], Verdict::Warning),
    row(
        "kernel modules loaded, device nodes accessible to this user",
        &["modules", "permissions"],
        Verdict::Warning,
    ),
    row("libfabric usable, if needed", &["libfabric"], Verdict::Warning),
    row("locked memory unlimited", &["memlock"], Verdict::Warning),
    row("GUIDs assigned", &["guid"], Verdict::Warning),
    row("RoCE v2 address on every RoCE port", &["gid"], Verdict::Warning),
    row("RoCE MTU 4096", &["mtu"], Verdict::Note),
    row("links at their full rate", &["rate", "link-errors"], Verdict::Warning),
    row("PCIe at full width and speed, no errors", &["pcie", "aer"], Verdict::Warning),
    row("lossless: PFC or pause, and ECN", &["flow-control", "ecn", "congestion"], Verdict::Note),
    row("IOMMU in passthrough mode, ACS off", &["iommu", "acs"], Verdict::Note),
    row("GPUDirect works, GPUs on the NIC's NUMA node", &["gpudirect", "numa"], Verdict::Warning),
    row("same firmware on NICs of a model", &["versions"], Verdict::Note),
    row("CPUs at full speed", &["governor", "idle"], Verdict::Note),
    row("firewall accepts RoCE", &["firewall"], Verdict::Warning),
    row("cgroup limits large enough", &["cgroup"], Verdict::Warning),
    row("counters readable, for monitoring", &["restricted", "saturated"], Verdict::Note),
    row("packet loss below 0.01 %", &["losses"], Verdict::Warning),
    row("no errors in the kernel log", &["kernel-log"], Verdict::Warning),
];

impl State {
    /// The name in text.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::NotDone => "not done",
            State::Unknown => "unknown",
            State::DoesNotApply => "does not apply",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CHECKS, check};

    #[test]
    fn every_row_names_existing_checks() {
        for row in ROWS {
            for name in row.checks {
                assert!(check(name).is_some(), "{name} of {:?}", row.title);
            }
        }
        let used = |name: &&str| ROWS.iter().any(|row| row.checks.contains(name));
        let unused: Vec<&str> =
            CHECKS.iter().map(|check| check.name).filter(|name| !used(name)).collect();
        assert_eq!(unused, ["gid-tables", "read-request", "bond", "netns", "hugepages"]);
    }
}
