//! Explains error lines: which program printed them, what their numbers mean, and possible causes.
//!
//! [`parse`] is pure and takes any text: it finds the lines it knows. [`explain`] adds the causes and runs the doctor's
//! checks for them on a machine. What the line itself proves or points to comes first; facts of the machine order only the
//! causes that the line leaves open.
//!
//! Status and vendor syndrome of a completion are decoded anywhere in a line (`completion.rs`), as is an error number
//! (`errno.rs`); everything else is a table of phrases (`phrase/`). Causes are a table too (`cause/`).

mod cause;
mod completion;
mod efa;
mod errno;
mod error_class;
mod phrase;
mod scan;
mod source;
mod status;
mod vendor;
mod xid;

use serde::Serialize;

use crate::{CheckInput, Finding, Severity, check};
use cause::Cause;
pub use cause::LineEvidence;
pub use completion::Completion;
pub use errno::Errno;
pub use error_class::ErrorClass;
use phrase::Phrase;
pub use source::Source;
pub use status::Status;
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
    /// The error number, if the line has one.
    pub errno: Option<Errno>,
    /// What it is about, which selects the causes.
    pub class: ErrorClass,
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
    /// What the line says about it.
    #[serde(rename = "line")]
    pub evidence: LineEvidence,
    /// Whether the check found it.
    pub state: CauseState,
    /// The findings of the check.
    pub findings: Vec<Finding>,
}

/// Whether a cause was found on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseState {
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
            (earlier.class, earlier.source, &earlier.title)
                == (error.class, error.source, &error.title)
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
        .map(|error| Explanation { causes: possible_causes(&error, input), error })
        .collect()
}

fn parse_line(line: &str) -> Option<ErrorLine> {
    // The text of ENOMEM is not what the program did, and ConnectX is a NIC.
    let mut lower = line
        .to_lowercase()
        .replace("cannot allocate memory", "failed: enomem")
        .replace("connectx", "mlnx");
    // Words of tables may end with a space, which the last word of a line has then too.
    lower.push(' ');
    lower.push_str(scan::severity(line));
    lower.push_str(scan::exception(line));
    lower.push_str(&scan::calls_in_words(line));
    let found = phrase::read(&lower);
    if let Some(event) = found.event() {
        return Some(ErrorLine::bare(line).of_phrase(event, None));
    }
    if let Some(completion) = completion::read(line, &lower) {
        return Some(ErrorLine {
            title: completion.title(),
            meaning: completion.meaning(),
            class: completion.status.class,
            completion: Some(completion),
            ..ErrorLine::bare(line)
        });
    }
    if let Some((title, meaning, class)) = xid::read(line).or_else(|| efa::read(&lower)) {
        return Some(ErrorLine { title, meaning, class, ..ErrorLine::bare(line) });
    }
    let (phrase, errno) = found.phrase(&lower)?;
    Some(ErrorLine::bare(line).of_phrase(phrase, errno))
}

impl PossibleCause {
    /// Whether the line or this machine supports it: its fix is worth trying. A cause that results in another error number
    /// counts only if it was found on this machine.
    pub fn is_likely(&self) -> bool {
        match self.evidence {
            LineEvidence::Proves | LineEvidence::Fits => true,
            LineEvidence::Open => self.state != CauseState::NotFound,
            LineEvidence::Unlikely => self.state == CauseState::Found,
        }
    }
}

impl ErrorLine {
    fn bare(line: &str) -> Self {
        ErrorLine {
            line: crate::one_line(line),
            times: 1,
            source: source::detect(line),
            title: String::new(),
            meaning: Vec::new(),
            completion: None,
            errno: None,
            class: ErrorClass::Other,
        }
    }

    /// The error number is part of the title: the same call fails for different reasons.
    fn of_phrase(self, phrase: &Phrase, errno: Option<Errno>) -> Self {
        let title = match errno {
            Some(errno) => format!("{}: {}", phrase.title, errno.words()),
            None => phrase.title.to_owned(),
        };
        let meaning = vec![phrase.meaning.to_owned()];
        ErrorLine { title, meaning, class: phrase.class, errno, ..self }
    }
}

/// What the line proves, then what it points to, then what it leaves open. Within these, causes that were found on this
/// machine come first; that a cause was not found moves it back only where the line leaves it open, and only on a machine with
/// RDMA: without, the line is from another one.
fn possible_causes(error: &ErrorLine, input: &CheckInput<'_>) -> Vec<PossibleCause> {
    let lower = error.line.to_lowercase();
    let has_rdma = !input.node.devices.is_empty();
    let rank = |cause: &Cause, possible: &PossibleCause| {
        let evidence = match possible.evidence {
            LineEvidence::Open if cause.is_always_first => LineEvidence::Fits,
            evidence => evidence,
        };
        let state = match possible.state {
            CauseState::NotFound if evidence <= LineEvidence::Fits && !cause.is_always_first => {
                CauseState::Unknown
            }
            CauseState::NotFound if !has_rdma => CauseState::Unknown,
            state => state,
        };
        (evidence, state)
    };
    let mut ranked: Vec<_> = error
        .class
        .causes()
        .iter()
        .map(|cause| {
            let possible = check_cause(cause, cause.evidence(&lower, error.errno), input);
            (rank(cause, &possible), possible)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, possible)| possible).collect()
}

fn check_cause(cause: &Cause, evidence: LineEvidence, input: &CheckInput<'_>) -> PossibleCause {
    let mut findings =
        cause.check.and_then(check).map(|check| check.findings(input)).unwrap_or_default();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let state = match findings.first().map(|finding| finding.severity) {
        None | Some(Severity::Unknown) => CauseState::Unknown,
        Some(severity) if severity >= cause.min_severity => CauseState::Found,
        Some(_) => CauseState::NotFound,
    };
    PossibleCause {
        cause: cause.text,
        fix: cause.fix,
        check: cause.check,
        evidence,
        state,
        findings,
    }
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
