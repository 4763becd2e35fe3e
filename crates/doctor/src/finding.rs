//! What a check found.

use serde::Serialize;

/// How bad it is, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Worth knowing, and no fault.
    Note,
    /// It cannot be told from here.
    Unknown,
    /// It works, and not as well as it should.
    Warning,
    /// It does not work, or will not.
    Problem,
}

/// A finding: of what, how bad, what was read, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that made it.
    pub check: &'static str,
    /// How bad it is.
    pub verdict: Verdict,
    /// Devices, ports, PCI functions, or `host`.
    pub subjects: Vec<String>,
    /// One line.
    pub summary: String,
    /// What was read.
    pub evidence: Vec<Evidence>,
    /// Why it matters.
    pub why: &'static str,
    /// What to do: commands and sentences, a line each.
    pub fix: Vec<String>,
}

/// One thing that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, or the command or library that was asked.
    pub source: String,
    /// The value as read, on one line.
    pub value: String,
}

impl Finding {
    pub(super) fn new(
        verdict: Verdict,
        subject: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        Finding {
            check: "",
            verdict,
            subjects: vec![plain(&subject.into())],
            summary: plain(&summary.into()),
            evidence: Vec::new(),
            why: "",
            fix: Vec::new(),
        }
    }

    pub(super) fn ok(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Verdict::Ok, subject, summary)
    }

    pub(super) fn note(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Verdict::Note, subject, summary)
    }

    pub(super) fn unknown(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Verdict::Unknown, subject, summary)
    }

    pub(super) fn warning(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Verdict::Warning, subject, summary)
    }

    pub(super) fn problem(subject: impl Into<String>, summary: impl Into<String>) -> Self {
        Finding::new(Verdict::Problem, subject, summary)
    }

    /// With something that was read.
    pub(super) fn read(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// With several.
    pub(super) fn read_all(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// With a line of what to do.
    pub(super) fn fix(mut self, line: impl Into<String>) -> Self {
        self.fix.push(plain(&line.into()));
        self
    }

    /// Whether it says the same of something else.
    pub(super) fn tells_the_same(&self, other: &Finding) -> bool {
        self.verdict == other.verdict && self.summary == other.summary
    }

    /// Takes in what is the same of something else.
    pub(super) fn join(&mut self, other: Finding) {
        take_in(&mut self.subjects, other.subjects);
        take_in(&mut self.evidence, other.evidence);
        take_in_order(&mut self.fix, other.fix);
    }

    /// Its subjects on one line.
    pub fn subject(&self) -> String {
        match self.subjects.len() {
            0..=MAX_NAMED => self.subjects.join(", "),
            many => {
                let (named, rest) =
                    (self.subjects[..MAX_NAMED - 1].join(", "), many - (MAX_NAMED - 1));
                format!("{named} and {rest} more")
            }
        }
    }
}

fn take_in<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// The same, but what is new stands before what both have behind it: commands before general words.
fn take_in_order(all: &mut Vec<String>, more: Vec<String>) {
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
        Evidence { source: plain(&source.into()), value: plain(value.as_ref()) }
    }
}

impl Verdict {
    /// As it is written in JSON and for people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Unknown => "unknown",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

/// On one line, without what a terminal would obey: files may hold anything.
pub fn plain(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = one_line.chars().filter(|letter| !letter.is_control());
    let mut line: String = letters.by_ref().take(LONGEST).collect();
    if letters.next().is_some() {
        line.push('…');
    }
    line
}

/// More subjects than these are counted.
const MAX_NAMED: usize = 4;
/// The longest line.
const LONGEST: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_cannot_write_on_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n\tc\u{7}"), "a[31mb c");
        assert_eq!(plain(&"x".repeat(1000)).chars().count(), LONGEST + 1);
    }

    #[test]
    fn commands_of_all_stand_before_general_words() {
        let finding = |command: &str| Finding::note("x", "same").fix(command).fix("In general: …");
        let mut one = finding("first");
        one.join(finding("second"));
        assert_eq!(one.fix, ["first", "second", "In general: …"]);
    }

    #[test]
    fn many_subjects_are_counted() {
        let mut finding = Finding::note("mlx5_0", "same");
        for number in 1..8 {
            finding.join(Finding::note(format!("mlx5_{number}"), "same"));
        }
        assert_eq!(finding.subject(), "mlx5_0, mlx5_1, mlx5_2 and 5 more");
    }
}
