//! What an error line means: who wrote it, what its numbers say, and what may have caused it.
//!
//! [`read`] is pure and takes any text: it finds the lines it knows. [`explain`] adds the causes, looks for each that
//! can be seen on a machine by the doctor's checks, and puts first what it found.
//!
//! A completion's status and the vendor's syndrome are decoded wherever they stand (`completion.rs`); everything
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

use crate::{Case, Finding, Verdict, check};
use cause::Cause;
pub use completion::Completion;
pub use source::Source;
pub use status::Status;
pub use subject::Subject;
pub use vendor::Syndrome;

/// A line that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// The line, without what a terminal would obey.
    pub line: String,
    /// How many lines say the same.
    pub times: usize,
    /// Who wrote it.
    pub source: Source,
    /// What it says, in one line.
    pub title: String,
    /// What that means.
    pub meaning: Vec<String>,
    /// Status and syndrome, if the line has them.
    pub completion: Option<Completion>,
    /// What it is about, which decides on the causes.
    pub subject: Subject,
}

/// A line with its causes, the likeliest first.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// The line.
    #[serde(flatten)]
    pub reading: Reading,
    /// What may have caused it.
    pub causes: Vec<Suspect>,
}

/// A cause, and what this machine says of it.
#[derive(Debug, Clone, Serialize)]
pub struct Suspect {
    /// The cause.
    pub cause: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// The doctor's check that looks for it.
    pub check: Option<&'static str>,
    /// Whether it is so on the machine that was looked at.
    pub state: State,
    /// What the check found.
    pub findings: Vec<Finding>,
}

/// Whether a cause is seen on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is so here.
    Seen,
    /// It cannot be told from here.
    CannotTell,
    /// It is not so here; the other end may differ.
    NotHere,
}

/// What is known of a log that is read line by line, however long it is.
#[derive(Debug, Default)]
pub struct Log {
    readings: Vec<Reading>,
}

impl Log {
    /// The next line; what is too long is cut. Of very many different things the first are kept.
    pub fn add(&mut self, line: &str) {
        let Some(reading) = read_line(cut(line)) else { return };
        let same = |earlier: &Reading| {
            (earlier.subject, earlier.source, &earlier.title)
                == (reading.subject, reading.source, &reading.title)
        };
        match self.readings.iter().position(same) {
            Some(earlier) => self.readings[earlier].times += 1,
            None if self.readings.len() < MAX_READINGS => self.readings.push(reading),
            None => {}
        }
    }

    /// The lines that are known, each once, in their order.
    pub fn into_readings(self) -> Vec<Reading> {
        self.readings
    }
}

/// The lines of a text that are known, each once, in their order. Any text will do.
pub fn read(text: &str) -> Vec<Reading> {
    let mut log = Log::default();
    text.lines().for_each(|line| log.add(line));
    log.into_readings()
}

/// Readings with their causes, each looked for on this machine.
pub fn explain(readings: Vec<Reading>, case: &Case<'_>) -> Vec<Explained> {
    readings
        .into_iter()
        .map(|reading| Explained { causes: suspects(reading.subject, case), reading })
        .collect()
}

fn read_line(line: &str) -> Option<Reading> {
    let source = source::of(line);
    if let Some(completion) = completion::read(line) {
        return Some(Reading {
            title: completion.title(),
            meaning: completion.meaning(),
            subject: completion.subject(line),
            ..Reading::bare(line, source, Some(completion))
        });
    }
    if let Some((title, meaning, subject)) = xid::read(line).or_else(|| efa::read(line)) {
        return Some(Reading { title, meaning, subject, ..Reading::bare(line, source, None) });
    }
    let phrase = phrase::find(line)?;
    Some(Reading {
        title: phrase.title.to_owned(),
        meaning: vec![phrase.meaning.to_owned()],
        subject: phrase.subject,
        ..Reading::bare(line, source, None)
    })
}

impl Reading {
    fn bare(line: &str, source: Source, completion: Option<Completion>) -> Self {
        let line = crate::one_line(line);
        Reading {
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

/// Causes with what this machine says of them: those that stand first whatever is found, then those that are seen.
fn suspects(subject: Subject, case: &Case<'_>) -> Vec<Suspect> {
    let mut ranked: Vec<(bool, Suspect)> =
        subject.causes().iter().map(|cause| (!cause.first, suspect(cause, case))).collect();
    ranked.sort_by_key(|(later, suspect)| (*later, suspect.state));
    ranked.into_iter().map(|(_, suspect)| suspect).collect()
}

fn suspect(cause: &Cause, case: &Case<'_>) -> Suspect {
    let mut findings =
        cause.check.and_then(check).map(|check| check.look(case)).unwrap_or_default();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let state = match findings.first().map(|finding| finding.verdict) {
        None | Some(Verdict::Unknown) => State::CannotTell,
        Some(verdict) if verdict >= cause.from => State::Seen,
        Some(_) => State::NotHere,
    };
    Suspect { cause: cause.text, fix: cause.fix, check: cause.check, state, findings }
}

/// The beginning of a line that is too long.
fn cut(line: &str) -> &str {
    line.char_indices().nth(LONGEST_LINE).map_or(line, |(end, _)| &line[..end])
}

/// Letters of a line that are looked at.
const LONGEST_LINE: usize = 4096;
/// Different things that are told of one text.
const MAX_READINGS: usize = 64;

#[cfg(test)]
mod tests;
