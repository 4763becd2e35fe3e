//! Whether a machine is ready for production: a checklist, answered by the checks.

use serde::Serialize;

use super::{Case, Finding, Report, Verdict};

/// A line of the list.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// What should be so.
    pub title: &'static str,
    /// Whether it is.
    pub state: State,
    /// Why not, or how it is known.
    pub because: Option<String>,
    /// The checks that tell; `wirelane doctor CHECK` says more.
    pub checks: &'static [&'static str],
}

/// Whether a line of the list is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is so.
    Done,
    /// It is not so.
    NotDone,
    /// It cannot be told from here.
    CannotTell,
    /// It means nothing on this machine.
    DoesNotApply,
}

/// Goes through the list. A report of all checks is enough to tell.
pub fn go_through(case: &Case<'_>, report: &Report) -> Vec<Item> {
    let first = Item {
        title: "RDMA device present",
        state: if case.node.devices.is_empty() { State::NotDone } else { State::Done },
        because: report.devices.first().map(|name| match report.devices.len() {
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
    /// The least verdict that leaves it undone.
    undone_from: Verdict,
}

impl ChecklistRow {
    fn check(&self, report: &Report) -> Item {
        let of_line = |finding: &&Finding| self.checks.contains(&finding.check);
        let worst = report
            .findings
            .iter()
            .filter(of_line)
            .max_by_key(|finding| self.weight(finding.verdict));
        let state = match worst.map(|finding| finding.verdict) {
            None => State::DoesNotApply,
            Some(Verdict::Unknown) => State::CannotTell,
            Some(verdict) if verdict >= self.undone_from => State::NotDone,
            Some(_) => State::Done,
        };
        let because = worst.map(|finding| format!("{}: {}", finding.subject(), finding.summary));
        Item { title: self.title, state, because, checks: self.checks }
    }

    /// What is undone weighs more than what cannot be told, and that more than what is done.
    fn weight(&self, verdict: Verdict) -> (u8, Verdict) {
        match verdict {
            Verdict::Unknown => (1, verdict),
            verdict if verdict >= self.undone_from => (2, verdict),
            verdict => (0, verdict),
        }
    }
}

const fn row(
    title: &'static str,
    checks: &'static [&'static str],
    undone_from: Verdict,
) -> ChecklistRow {
    ChecklistRow { title, checks, undone_from }
}

const ROWS: &[ChecklistRow] = &[
    row("ports active", &["ports"], Verdict::Warning),
    row(
        "kernel modules loaded, device nodes open to this user",
        &["modules", "rights"],
        Verdict::Warning,
    ),
    row("libfabric there, where it is needed", &["libfabric"], Verdict::Warning),
    row("memory may be locked without limit", &["memlock"], Verdict::Warning),
    row("GUIDs assigned", &["guid"], Verdict::Warning),
    row("RoCE v2 address on every RoCE port", &["gid"], Verdict::Warning),
    row("packets of 4096 bytes (MTU)", &["mtu"], Verdict::Note),
    row("links at their full rate", &["rate", "link-errors"], Verdict::Warning),
    row("PCIe at full width and speed, no errors", &["pcie", "aer"], Verdict::Warning),
    row("lossless: PFC or pause, and ECN", &["flow-control", "ecn", "congestion"], Verdict::Note),
    row("IOMMU passes through, no ACS in the way", &["iommu", "acs"], Verdict::Note),
    row("GPUs reached directly, on the card's NUMA node", &["gpudirect", "numa"], Verdict::Warning),
    row("one firmware for each model", &["versions"], Verdict::Note),
    row("CPUs at full speed", &["governor", "idle"], Verdict::Note),
    row("packet filter lets RoCE in", &["firewall"], Verdict::Warning),
    row("control group's limits are large enough", &["cgroup"], Verdict::Warning),
    row("counters can be read, for monitoring", &["restricted", "saturated"], Verdict::Note),
    row("next to nothing lost", &["losses"], Verdict::Warning),
    row("kernel's log without complaint", &["kernel-log"], Verdict::Warning),
];

impl State {
    /// As it is written for people.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::NotDone => "not done",
            State::CannotTell => "cannot tell",
            State::DoesNotApply => "does not apply",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CHECKS, check};

    #[test]
    fn every_line_asks_for_checks_that_are_there() {
        for line in ROWS {
            for name in line.checks {
                assert!(check(name).is_some(), "{name} of {:?}", line.title);
            }
        }
        let asked = |name: &&str| ROWS.iter().any(|row| row.checks.contains(name));
        let left: Vec<&str> =
            CHECKS.iter().map(|check| check.name).filter(|name| !asked(name)).collect();
        assert_eq!(left, ["gid-tables", "read-request", "bond", "netns", "hugepages"]);
    }
}
