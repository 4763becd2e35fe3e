//! The doctor's findings on a row of the screen.

use doctor::{self, Check, CheckInput, Evidence, Finding, Severity};
use node::Node;

use super::issue::Issue;
use crate::arguments::host::HostArgs;

/// A query to the doctor about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoctorQuery {
    /// The name of the row.
    pub(super) title: String,
    /// Subjects of findings on it: `mlx5_0 port 1`, `mlx5_0`, a PCI address.
    pub(super) subjects: Vec<String>,
    pub(super) issues: Vec<Issue>,
    /// Checks to run if there are no issues.
    pub(super) default_checks: &'static [&'static str],
    /// XIDs of a GPU.
    pub(super) xids: Vec<u64>,
}

impl DoctorQuery {
    /// The checks to run, each once.
    fn checks(&self) -> Vec<&'static Check> {
        let mut names: Vec<&str> = Vec::new();
        let of_issues = self.issues.iter().flat_map(|issue| issue.checks());
        let default_checks = self.default_checks.iter().filter(|_| self.issues.is_empty());
        for name in of_issues.chain(default_checks) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        names.into_iter().filter_map(doctor::check).collect()
    }

    /// The subject of a finding that is this row, or the host; `None` if the finding is about something else.
    fn subject<'f>(&self, finding: &'f Finding) -> Option<&'f String> {
        let subjects = || finding.subjects.iter();
        let own = subjects().find(|subject| self.subjects.contains(subject));
        own.or_else(|| subjects().find(|subject| *subject == "host"))
    }

    fn intro(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.issues.iter().map(|issue| format!("! {}", issue.description())).collect();
        for xid in &self.xids {
            let line = format!("NVRM: Xid (PCI:0000:00:00): {xid}, ");
            for error in doctor::explain::parse(&line) {
                lines.push(format!("! Xid {xid}: {}", error.meaning.join(" ")));
            }
        }
        if lines.is_empty() {
            lines.push("No issues. Findings of the doctor:".to_owned());
        }
        lines.push(String::new());
        lines
    }
}

/// Reads the machine and runs the checks, which may take seconds.
pub(super) fn run_checks(host: &HostArgs, query: &DoctorQuery) -> Vec<String> {
    let mut lines = query.intro();
    let tree = match host.tree() {
        Ok(tree) => tree,
        Err(failure) => {
            lines.push(failure.to_string());
            return lines;
        }
    };
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let findings = query.checks().into_iter().flat_map(|check| check.findings(&input));
    let mut findings: Vec<Finding> =
        findings.filter(|finding| query.subject(finding).is_some()).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if findings.is_empty() {
        lines.push("The doctor has no findings on this.".to_owned());
    }
    lines.extend(findings.iter().flat_map(|finding| describe(finding, query)));
    lines
}

/// For a recording, where no checks can run: why they matter, and the commands to run there.
pub(super) fn for_recording(query: &DoctorQuery) -> Vec<String> {
    let mut lines = query.intro();
    for check in query.checks() {
        lines.push(format!("{}: {}", check.name, check.title));
        lines.push(format!("  why:  {}", check.why));
        lines.push(format!("  fix:  on that machine: wirelane doctor {}", check.name));
        lines.push(String::new());
    }
    lines
}

fn describe(finding: &Finding, query: &DoctorQuery) -> Vec<String> {
    let Finding { check, severity, summary, evidence, .. } = finding;
    let mark = match severity {
        Severity::Problem | Severity::Warning => severity.name().to_uppercase(),
        _ => severity.name().to_owned(),
    };
    let subject = query.subject(finding).cloned().unwrap_or_default();
    let mut lines = vec![format!("{mark}  {subject}: {summary}  [{check}]")];
    // If the finding has several subjects, only the evidence on this row.
    let is_only = finding.subjects.len() == 1;
    let names = |one: &&Evidence| {
        let name = |subject: &String| subject.split(' ').next().unwrap_or_default().to_owned();
        let named = |subject| one.source.split('/').any(|part| part == name(subject));
        is_only || query.subjects.iter().any(named) || !one.source.starts_with("/sys/class")
    };
    let read = evidence.iter().filter(names).take(MAX_EVIDENCE);
    lines.extend(read.map(|Evidence { source, value }| format!("  read: {source}: {value}")));
    if *severity != Severity::Ok {
        lines.push(format!("  why:  {}", finding.why));
        lines.extend(finding.fix.iter().map(|line| format!("  fix:  {line}")));
    }
    lines.push(String::new());
    lines
}

/// Maximum lines of evidence per finding.
const MAX_EVIDENCE: usize = 6;
