//! Explains error lines: which program printed them, what their numbers mean, and possible causes.
//!
//! [`parse`] is pure and takes any text: it finds the lines it knows. [`explain`] adds the causes, runs the doctor's
//! checks for them on a machine, and sorts those that were found first.
//!
//! Status and vendor syndrome of a completion are decoded anywhere in a line (`completion.rs`); everything
//! else is a table of phrases (`phrase/`). Causes are a table too (`cause/`).

mod cause;
mod completion;
mod efa;
mod phrase;
mod scan;
mod source;
mod status;
mod subject;
mod vendor;
mod xid;

use serde::Serialize;

use crate::{CheckInput, Finding, Verdict, check};
use cause::Cause;
pub use completion::Completion;
pub use source::Source;
pub use status::Status;
pub use subject::Subject;
pub use vendor::Syndrome;

/// A known error line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorLine {
    /// The line, without control characters.
    pub line: String,
    /// The number of lines with the same error.
    pub times: usize,
    /// The program that printed it.
    pub source: Source,
    /// The error in one line.
    pub title: String,
    /// What it means.
    pub meaning: Vec<String>,
    /// Status and syndrome, if the line has them.
    pub completion: Option<Completion>,
    /// What it is about, which selects the causes.
    pub subject: Subject,
}

/// A line with its possible causes, the likeliest first.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// The line.
    #[serde(flatten)]
    pub error: ErrorLine,
    /// Possible causes.
    pub causes: Vec<PossibleCause>,
}

/// A possible cause, and whether it was found on this machine.
#[derive(Debug, Clone, Serialize)]
pub struct PossibleCause {
    /// The cause.
    pub cause: &'static str,
    /// The fix.
    pub fix: &'static str,
    /// The doctor's check for it.
    pub check: Option<&'static str>,
    /// Whether the check found it.
    pub state: State,
    /// The findings of the check.
    pub findings: Vec<Finding>,
}

/// Whether a cause was found on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Found on this machine.
    Found,
    /// Cannot be determined here.
    Unknown,
    /// Not found on this machine; the other end may differ.
    NotFound,
}

/// Collects the known errors of a log, line by line, with bounded memory.
#[derive(Debug, Default)]
pub struct LogParser {
    errors: Vec<ErrorLine>,
}

impl LogParser {
    /// Parses the next line. Long lines are cut; of very many different errors the first are kept.
    pub fn add(&mut self, line: &str) {
        let Some(error) = parse_line(cut(line)) else { return };
        let same = |earlier: &ErrorLine| {
            (earlier.subject, earlier.source, &earlier.title)
                == (error.subject, error.source, &error.title)
        };
        match self.errors.iter().position(same) {
            Some(earlier) => self.errors[earlier].times += 1,
            None if self.errors.len() < MAX_ERRORS => self.errors.push(error),
            None => {}
        }
    }

    /// The known errors without duplicates, in order of appearance.
    pub fn into_errors(self) -> Vec<ErrorLine> {
        self.errors
    }
}

/// The known errors of any text, without duplicates, in order of appearance.
pub fn parse(text: &str) -> Vec<ErrorLine> {
    let mut log = LogParser::default();
    text.lines().for_each(|line| log.add(line));
    log.into_errors()
}

/// Adds the possible causes to errors, each checked on this machine.
pub fn explain(errors: Vec<ErrorLine>, input: &CheckInput<'_>) -> Vec<Explanation> {
    errors
        .into_iter()
        .map(|error| Explanation { causes: possible_causes(error.subject, input), error })
        .collect()
}

fn parse_line(line: &str) -> Option<ErrorLine> {
    let source = source::detect(line);
    if let Some(completion) = completion::read(line) {
        return Some(ErrorLine {
            title: completion.title(),
            meaning: completion.meaning(),
            subject: completion.subject(line),
            ..ErrorLine::bare(line, source, Some(completion))
        });
    }
    if let Some((title, meaning, subject)) = xid::read(line).or_else(|| efa::read(line)) {
        return Some(ErrorLine { title, meaning, subject, ..ErrorLine::bare(line, source, None) });
    }
    let phrase = phrase::find(line)?;
    Some(ErrorLine {
        title: phrase.title.to_owned(),
        meaning: vec![phrase.meaning.to_owned()],
        subject: phrase.subject,
        ..ErrorLine::bare(line, source, None)
    })
}

impl ErrorLine {
    fn bare(line: &str, source: Source, completion: Option<Completion>) -> Self {
        let line = crate::one_line(line);
        ErrorLine {
            line,
            times: 1,
            source,
            title: String::new(),
            meaning: Vec::new(),
            completion,
            subject: Subject::Other,
        }
    }
}

/// Those that are always first, then those that were found on this machine.
fn possible_causes(subject: Subject, input: &CheckInput<'_>) -> Vec<PossibleCause> {
    let mut ranked: Vec<(bool, PossibleCause)> = subject
        .causes()
        .iter()
        .map(|cause| (!cause.is_always_first, check_cause(cause, input)))
        .collect();
    ranked.sort_by_key(|(later, cause)| (*later, cause.state));
    ranked.into_iter().map(|(_, cause)| cause).collect()
}

fn check_cause(cause: &Cause, input: &CheckInput<'_>) -> PossibleCause {
    let mut findings =
        cause.check.and_then(check).map(|check| check.findings(input)).unwrap_or_default();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let state = match findings.first().map(|finding| finding.verdict) {
        None | Some(Verdict::Unknown) => State::Unknown,
        Some(verdict) if verdict >= cause.min_verdict => State::Found,
        Some(_) => State::NotFound,
    };
    PossibleCause { cause: cause.text, fix: cause.fix, check: cause.check, state, findings }
}

/// The beginning of a line that is too long.
fn cut(line: &str) -> &str {
    line.char_indices().nth(MAX_LINE_CHARS).map_or(line, |(end, _)| &line[..end])
}

/// Longer lines are cut.
const MAX_LINE_CHARS: usize = 4096;
/// Different errors of one text.
const MAX_ERRORS: usize = 64;

#[cfg(test)]
mod tests;
