//! All findings on one machine, the worst first.

use serde::Serialize;

use super::{CHECKS, CheckInput, Finding, Severity};

/// The findings on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct FindingsReport {
    /// The machine's name.
    pub host: Option<String>,
    /// Names of its RDMA devices.
    pub devices: Vec<String>,
    /// The number of findings of each severity.
    pub counts: SeverityCounts,
    /// The worst first; equal ones in the order of checks.
    pub findings: Vec<Finding>,
}

/// The number of findings of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SeverityCounts {
    /// Problems.
    pub problem: usize,
    /// Warnings.
    pub warning: usize,
    /// Findings that cannot be determined.
    pub unknown: usize,
    /// Notes.
    pub note: usize,
    /// No fault.
    pub ok: usize,
}

impl FindingsReport {
    pub(super) fn new(input: &CheckInput<'_>, findings: Vec<Finding>) -> Self {
        let devices = input.node.devices.iter().map(|device| device.name.clone()).collect();
        let mut report = FindingsReport {
            host: input.node.host.name.value().cloned(),
            devices,
            counts: SeverityCounts::default(),
            findings,
        };
        report.sort_and_count();
        report
    }

    /// Adds findings.
    pub fn add(&mut self, more: Vec<Finding>) {
        self.findings.extend(more);
        self.sort_and_count();
    }

    fn sort_and_count(&mut self) {
        let place = |finding: &Finding| CHECKS.iter().position(|check| check.name == finding.check);
        self.findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), place(finding)));
        let count =
            |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        self.counts = SeverityCounts {
            problem: count(Severity::Problem),
            warning: count(Severity::Warning),
            unknown: count(Severity::Unknown),
            note: count(Severity::Note),
            ok: count(Severity::Ok),
        };
    }

    /// The worst finding of a check.
    pub fn worst_of(&self, check: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check == check)
    }

    /// Whether there is a problem, or with `strict` a warning.
    pub fn is_bad(&self, strict: bool) -> bool {
        self.counts.problem > 0 || (strict && self.counts.warning > 0)
    }

    /// The summary in one line.
    pub fn line(&self) -> String {
        let first = self.findings.first().filter(|first| first.severity >= Severity::Warning);
        let first = first.map(|first| format!("; first: {}: {}", first.subject(), first.summary));
        if self.devices.is_empty() {
            return format!("no RDMA device on this machine{}", first.unwrap_or_default());
        }
        let SeverityCounts { problem, warning, unknown, note, ok } = self.counts;
        let devices = match self.devices.len() {
            1 => "1 RDMA device".to_owned(),
            many => format!("{many} RDMA devices"),
        };
        let mut parts = Vec::new();
        for (count, one, many) in [
            (problem, "problem", "problems"),
            (warning, "warning", "warnings"),
            (note, "note", "notes"),
            (ok, "ok", "ok"),
            (unknown, "unknown", "unknown"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {}", if count == 1 { one } else { many }));
            }
        }
        let worst = first.unwrap_or_else(|| "; no fault found".to_owned());
        format!("{devices}: {}{worst}", parts.join(", "))
    }
}
