//! A checklist for machines in production, evaluated from the checks.

use serde::Serialize;

use super::{CheckInput, Finding, FindingsReport, Severity};

/// An item of the list.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// What should be true.
    pub title: &'static str,
    /// Whether it is true.
    pub state: ItemState,
    /// The finding that decided.
    pub why: Option<String>,
    /// The checks that decide; `wirelane doctor CHECK` prints details.
    pub checks: &'static [&'static str],
}

/// Whether an item is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
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
pub fn evaluate(input: &CheckInput<'_>, report: &FindingsReport) -> Vec<Item> {
    let first = Item {
        title: "RDMA device present",
        state: if input.node.devices.is_empty() { ItemState::NotDone } else { ItemState::Done },
        why: report.devices.first().map(|name| match report.devices.len() {
            1 => name.clone(),
            many => format!("{name} and {} more", many - 1),
        }),
        checks: &[],
    };
    let checked = ROWS.iter().map(|row| row.check(report));
    let on_disk = FILE_ROWS.iter().map(|row| row.check(input));
    let by_hand = MANUAL_ROWS.iter().map(|(title, how)| Item {
        title,
        state: ItemState::Unknown,
        why: Some((*how).to_owned()),
        checks: &[],
    });
    std::iter::once(first).chain(checked).chain(on_disk).chain(by_hand).collect()
}

struct ChecklistRow {
    title: &'static str,
    checks: &'static [&'static str],
    /// Checks that can only contradict: alone they do not make the item apply.
    contradicted_by: &'static [&'static str],
    /// The mildest severity with which it is not done.
    not_done_from: Severity,
}

impl ChecklistRow {
    fn check(&self, report: &FindingsReport) -> Item {
        let of = |names: &'static [&'static str]| {
            report.findings.iter().filter(move |finding| names.contains(&finding.check))
        };
        let applies = of(self.checks).next().is_some();
        let deciding: Vec<&Finding> = match applies {
            true => of(self.checks).chain(of(self.contradicted_by)).collect(),
            false => Vec::new(),
        };
        let worst = deciding.iter().map(|finding| self.weight(finding.severity)).max();
        let state = match worst {
            None => ItemState::DoesNotApply,
            Some((1, _)) => ItemState::Unknown,
            Some((2, _)) => ItemState::NotDone,
            Some(_) => ItemState::Done,
        };
        let why = worst.map(|(weight, _)| self.reasons(&deciding, weight));
        Item { title: self.title, state, why, checks: self.checks }
    }

    /// The worst finding of each check that decides.
    fn reasons(&self, deciding: &[&Finding], weight: u8) -> String {
        let names = self.checks.iter().chain(self.contradicted_by);
        let worst = names.filter_map(|name| {
            let of_check = deciding.iter().filter(|finding| finding.check == *name);
            of_check
                .filter(|finding| self.weight(finding.severity).0 == weight)
                .max_by_key(|finding| finding.severity)
        });
        let reasons: Vec<String> =
            worst.map(|finding| format!("{}: {}", finding.subject(), finding.summary)).collect();
        reasons.join("; ")
    }

    /// Not done weighs more than unknown, and unknown more than done.
    fn weight(&self, severity: Severity) -> (u8, Severity) {
        match severity {
            Severity::Unknown => (1, severity),
            severity if severity >= self.not_done_from => (2, severity),
            severity => (0, severity),
        }
    }
}

/// An item that files show.
struct FileRow {
    title: &'static str,
    /// One of these must exist.
    paths: &'static [&'static str],
    /// What it is if none exists on the running machine. A snapshot lacks files that the checks do not read.
    without: ItemState,
    how: &'static str,
}

impl FileRow {
    fn check(&self, input: &CheckInput<'_>) -> Item {
        let found = self.paths.iter().find(|path| input.tree.exists(path));
        let (state, why) = match found {
            Some(path) => (ItemState::Done, format!("{path} exists")),
            None if input.tree.is_live() => {
                (self.without, format!("there is no {}: {}", self.paths.join(" or "), self.how))
            }
            None => (ItemState::Unknown, format!("not part of the snapshot: {}", self.how)),
        };
        Item { title: self.title, state, why: Some(why), checks: &[] }
    }
}

const fn row(
    title: &'static str,
    checks: &'static [&'static str],
    not_done_from: Severity,
) -> ChecklistRow {
    ChecklistRow { title, checks, contradicted_by: &[], not_done_from }
}

const ROWS: &[ChecklistRow] = &[
    row("ports active", &["ports"], Severity::Warning),
    row(
        "kernel modules loaded, device nodes accessible to this user",
        &["modules", "permissions"],
        Severity::Warning,
    ),
    row("libfabric usable, if needed", &["libfabric"], Severity::Warning),
    row("locked memory unlimited", &["memlock"], Severity::Warning),
    row("GUIDs assigned", &["guid"], Severity::Warning),
    row("RoCE v2 address on every RoCE port", &["gid"], Severity::Warning),
    row("RoCE MTU 4096", &["mtu"], Severity::Note),
    row("links at their full rate", &["rate", "link-errors"], Severity::Warning),
    row("PCIe at full width and speed, no errors", &["pcie", "aer"], Severity::Warning),
    row("lossless: PFC or pause, and ECN", &["flow-control", "ecn", "congestion"], Severity::Note),
    row("IOMMU in passthrough mode, ACS off", &["iommu", "acs"], Severity::Note),
    // The module alone is not enough: an IOMMU that translates, or ACS, breaks the path that it needs.
    ChecklistRow {
        contradicted_by: &["iommu", "acs"],
        ..row(
            "GPUDirect works, GPUs on the NIC's NUMA node",
            &["gpudirect", "numa"],
            Severity::Warning,
        )
    },
    row("same firmware on NICs of a model", &["versions"], Severity::Note),
    row("CPUs at full speed", &["governor", "idle"], Severity::Note),
    row("firewall accepts RoCE", &["firewall"], Severity::Warning),
    row("cgroup limits large enough", &["cgroup"], Severity::Warning),
    row("counters readable, for monitoring", &["unreadable-counters", "saturated"], Severity::Note),
    row("packet loss below 0.01 %", &["losses"], Severity::Warning),
    row("no errors in the kernel log", &["kernel-log"], Severity::Warning),
    row("the store's disk quick and durable", &["store-disk"], Severity::Warning),
];

const FILE_ROWS: &[FileRow] = &[
    FileRow {
        title: "settings file in place",
        paths: &["/etc/wirelane/wirelane.yaml", "/etc/nccl.conf"],
        without: ItemState::NotDone,
        how: "`wirelane config show --format yaml` and `wirelane env --format nccl.conf` print them",
    },
    FileRow {
        title: "monitoring installed",
        paths: &["/etc/systemd/system/wirelane-exporter.service"],
        // Another exporter may run, or one in a pod.
        without: ItemState::Unknown,
        how: "`wirelane install apply exporter` installs an exporter",
    },
    FileRow {
        title: "tests run",
        paths: &["/var/lib/wirelane/bench"],
        // Results of users other than root are in their home folders.
        without: ItemState::Unknown,
        how: "`wirelane connect HOST` tests the path to a host, `wirelane bench` measures it and saves \
              its results",
    },
];

/// Items that no file shows, and how to find out.
const MANUAL_ROWS: &[(&str, &str)] = &[
    (
        "benchmark targets met",
        "`wirelane bench history --check` compares with earlier runs or a baseline",
    ),
    (
        "fall-back tried",
        "run a job once without RDMA (`NCCL_IB_DISABLE=1`, `UCX_TLS=tcp,self,sm`): it must work, slower",
    ),
];

impl ItemState {
    /// The name in text.
    pub fn name(self) -> &'static str {
        match self {
            ItemState::Done => "done",
            ItemState::NotDone => "not done",
            ItemState::Unknown => "unknown",
            ItemState::DoesNotApply => "does not apply",
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
