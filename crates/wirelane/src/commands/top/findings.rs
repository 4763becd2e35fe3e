//! The doctor's words on a row of the screen.

use doctor::{self, Case, Check, Evidence, Finding, Verdict};
use node::Node;

use super::issue::Trouble;
use crate::arguments::host::HostArgs;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// What the row is called.
    pub(super) title: String,
    /// What findings on it are about: `mlx5_0 port 1`, `mlx5_0`, a PCI address.
    pub(super) subjects: Vec<String>,
    pub(super) troubles: Vec<Trouble>,
    /// What is looked at where nothing is wrong.
    pub(super) otherwise: &'static [&'static str],
    /// XIDs of a GPU.
    pub(super) xids: Vec<u64>,
}

impl Question {
    /// Checks that have words on it, each once.
    fn checks(&self) -> Vec<&'static Check> {
        let mut names: Vec<&str> = Vec::new();
        let of_troubles = self.troubles.iter().flat_map(|trouble| trouble.checks());
        let otherwise = self.otherwise.iter().filter(|_| self.troubles.is_empty());
        for name in of_troubles.chain(otherwise) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        names.into_iter().filter_map(doctor::check).collect()
    }

    /// What a finding says is told of several at once; nothing, if this is none of them.
    fn subject<'f>(&self, finding: &'f Finding) -> Option<&'f String> {
        let subjects = || finding.subjects.iter();
        let own = subjects().find(|subject| self.subjects.contains(subject));
        own.or_else(|| subjects().find(|subject| *subject == "host"))
    }

    fn beginning(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.troubles.iter().map(|trouble| format!("! {}", trouble.words())).collect();
        for xid in &self.xids {
            let line = format!("NVRM: Xid (PCI:0000:00:00): {xid}, ");
            for error in doctor::explain::parse(&line) {
                lines.push(format!("! Xid {xid}: {}", error.meaning.join(" ")));
            }
        }
        if lines.is_empty() {
            lines.push("No fault is shown. Findings of the doctor:".to_owned());
        }
        lines.push(String::new());
        lines
    }
}

/// Looks at the machine anew, which may take seconds.
pub(super) fn ask(host: &HostArgs, question: &Question) -> Vec<String> {
    let mut lines = question.beginning();
    let tree = match host.tree() {
        Ok(tree) => tree,
        Err(failure) => {
            lines.push(failure.to_string());
            return lines;
        }
    };
    let node = Node::read(&tree);
    let case = Case::new(&node, &tree);
    let findings = question.checks().into_iter().flat_map(|check| check.findings(&case));
    let mut findings: Vec<Finding> =
        findings.filter(|finding| question.subject(finding).is_some()).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    if findings.is_empty() {
        lines.push("The doctor has no findings on this.".to_owned());
    }
    lines.extend(findings.iter().flat_map(|finding| told(finding, question)));
    lines
}

/// Of a recording nothing can be looked at: why it matters, and what to run there.
pub(super) fn recorded(question: &Question) -> Vec<String> {
    let mut lines = question.beginning();
    for check in question.checks() {
        lines.push(format!("{}: {}", check.name, check.title));
        lines.push(format!("  why:  {}", check.why));
        lines.push(format!("  fix:  on that machine: wirelane doctor {}", check.name));
        lines.push(String::new());
    }
    lines
}

fn told(finding: &Finding, question: &Question) -> Vec<String> {
    let Finding { check, verdict, summary, evidence, .. } = finding;
    let mark = match verdict {
        Verdict::Problem | Verdict::Warning => verdict.name().to_uppercase(),
        _ => verdict.name().to_owned(),
    };
    let subject = question.subject(finding).cloned().unwrap_or_default();
    let mut lines = vec![format!("{mark}  {subject}: {summary}  [{check}]")];
    // Of what was read of several, that which was read of this one.
    let alone = finding.subjects.len() == 1;
    let names = |one: &&Evidence| {
        let name = |subject: &String| subject.split(' ').next().unwrap_or_default().to_owned();
        let named = |subject| one.source.split('/').any(|part| part == name(subject));
        alone || question.subjects.iter().any(named) || !one.source.starts_with("/sys/class")
    };
    let read = evidence.iter().filter(names).take(MAX_SHOWN);
    lines.extend(read.map(|Evidence { source, value }| format!("  read: {source}: {value}")));
    if *verdict != Verdict::Ok {
        lines.push(format!("  why:  {}", finding.why));
        lines.extend(finding.fix.iter().map(|line| format!("  fix:  {line}")));
    }
    lines.push(String::new());
    lines
}

/// Lines of evidence of one finding.
const MAX_SHOWN: usize = 6;
