//! Findings of checks.

use serde::Serialize;

/// The severity of a finding, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No fault.
    Ok,
    /// Not a fault, but worth knowing.
    Note,
    /// Cannot be determined here.
    Unknown,
    /// It works, but not as well as it should.
    Warning,
    /// It does not work, or will fail.
    Problem,
}

/// A finding: subjects, severity, evidence, reason and fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that made it.
    pub check: &'static str,
    /// The severity.
    pub severity: Severity,
    /// Devices, ports, PCI functions, or `host`.
    pub subjects: Vec<String>,
    /// One line.
    pub summary: String,
    /// The values that were read.
    pub evidence: Vec<Evidence>,
    /// Why it matters.
    pub why: &'static str,
    /// The fix: commands and sentences, one per line.
    pub fix: Vec<String>,
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, command or library.
    pub source: String,
    /// The value as read, on one line.
    pub value: String,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        subject: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        Finding {
            check: "",
            severity,
            subjects: vec![one_line(&subject.into())],
            summary: one_line(&summary.into()),
            evidence: Vec::new(),
            why: "",
            fix: Vec::new(),
        }
    }

    pub(super) fn ok(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Severity::Ok, subject, summary)
    }

    pub(super) fn note(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Severity::Note, subject, summary)
    }

    pub(super) fn unknown(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Severity::Unknown, subject, summary)
    }

    pub(super) fn warning(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Severity::Warning, subject, summary)
    }

    pub(super) fn problem(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Severity::Problem, subject, summary)
    }

    /// Adds evidence.
    pub(super) fn evidence(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// Adds several values as evidence.
    pub(super) fn evidence_all(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Adds a line to the fix.
    pub(super) fn fix(mut self, line: impl Into<String>) -> Self {
        self.fix.push(one_line(&line.into()));
        self
    }

    /// Whether both have the same severity and summary, for whatever subjects.
    pub(super) fn has_same_message(&self, other: &Finding) -> bool {
        self.severity == other.severity && self.summary == other.summary
    }

    /// Adds the subjects, evidence and fix of a finding with the same message.
    pub(super) fn merge(&mut self, other: Finding) {
        add_missing(&mut self.subjects, other.subjects);
        add_missing(&mut self.evidence, other.evidence);
        add_missing_in_order(&mut self.fix, other.fix);
    }

    /// Its subjects on one line.
    pub fn subject(&self) -> String {
        match self.subjects.len() {
            0..=MAX_SUBJECTS => self.subjects.join(", "),
            many => {
                let (named, rest) =
                    (self.subjects[..MAX_SUBJECTS - 1].join(", "), many - (MAX_SUBJECTS - 1));
                format!("{named} and {rest} more")
            }
        }
    }
}

fn add_missing<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// Adds missing lines before the lines that both have in common after them: commands stay before general advice.
fn add_missing_in_order(all: &mut Vec<String>, more: Vec<String>) {
    let mut place = all.len();
    for line in more.into_iter().rev() {
        match all.iter().position(|known| *known == line) {
            Some(known) => place = known,
            None => all.insert(place, line),
        }
    }
}

impl Evidence {
    pub(super) fn new(source: impl Into<String>, value: impl AsRef<str>) -> Self {
        Evidence { source: one_line(&source.into()), value: one_line(value.as_ref()) }
    }
}

impl Severity {
    /// The name in JSON and in text.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Note => "note",
            Severity::Unknown => "unknown",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

/// The text on one line, without control characters: files may contain anything.
pub fn one_line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_shown = |letter: &char| !letter.is_control() && !changes_direction(*letter);
    let mut shown = joined.chars().filter(is_shown);
    let mut line: String = shown.by_ref().take(MAX_LINE_CHARS).collect();
    if shown.next().is_some() {
        line.push('…');
    }
    line
}

/// The bidirectional controls of Unicode (UAX 9, 2): text after one may be shown in another order than it has.
pub fn changes_direction(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Further subjects are counted, not named.
const MAX_SUBJECTS: usize = 4;
const MAX_LINE_CHARS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed_and_long_text_is_cut() {
        assert_eq!(one_line("a\u{1b}[31mb\n\tc\u{7}"), "a[31mb c");
        assert_eq!(one_line("a\u{202e}b\u{2069}c\u{61c}"), "abc");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), MAX_LINE_CHARS + 1);
    }

    #[test]
    fn merged_commands_stay_before_general_advice() {
        let finding = |command: &str| Finding::note("x", "same").fix(command).fix("In general: …");
        let mut one = finding("first");
        one.merge(finding("second"));
        assert_eq!(one.fix, ["first", "second", "In general: …"]);
    }

    #[test]
    fn many_subjects_are_counted() {
        let mut finding = Finding::note("mlx5_0", "same");
        for number in 1..8 {
            finding.merge(Finding::note(format!("mlx5_{number}"), "same"));
        }
        assert_eq!(finding.subject(), "mlx5_0, mlx5_1, mlx5_2 and 5 more");
    }
}
