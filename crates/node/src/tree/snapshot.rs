//! A snapshot: one JSON document with the files that were read and the answers that were given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::looks::Looks;
use crate::Error;
use crate::answers::Answers;

/// What a snapshot says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// When it was taken (RFC 3339, UTC).
    pub taken: Option<String>,
    /// The version of the program that took it.
    pub wirelane: Option<String>,
    /// What the person who took it says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// The document, borrowed to be written.
#[derive(Serialize)]
pub(super) struct Written<'s> {
    pub(super) format: &'static str,
    #[serde(flatten)]
    pub(super) about: &'s About,
    /// Of what something was left out for the secrets in it.
    pub(super) scrubbed: &'s BTreeSet<String>,
    pub(super) environment: &'s BTreeMap<String, String>,
    pub(super) answers: &'s Answers,
    #[serde(flatten)]
    pub(super) looks: &'s Looks,
}

/// Why bytes are no snapshot that can be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// They are something else.
    Foreign(serde_json::Error),
    /// It has another format, of this name.
    Format(String),
    /// It has the right format, and a part of it cannot be read.
    Damaged(serde_json::Error),
}

/// The document, as it was read.
pub(super) struct Document {
    pub(super) about: About,
    pub(super) scrubbed: BTreeSet<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) answers: Answers,
    pub(super) looks: Looks,
}

/// Reads a snapshot's file.
pub(super) fn read(path: &Path) -> Result<Document, Error> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Error::new(path, error))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| Error::new(path, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Error::new(
            path,
            format!("longer than {} MiB, so no snapshot of ours", LONGEST >> 20),
        ));
    }
    parse(&bytes).map_err(|reason| Error::new(path, reason))
}

/// The format first, alone: a newer one may have other shapes. Then each part by itself, so that a long document
/// is never held as a whole but as what it becomes.
pub(super) fn parse(bytes: &[u8]) -> Result<Document, SnapshotError> {
    let Head { format } = part(bytes).map_err(SnapshotError::Foreign)?;
    if format != FORMAT {
        return Err(SnapshotError::Format(format));
    }
    let Tail { scrubbed, environment, answers } = part(bytes).map_err(SnapshotError::Damaged)?;
    Ok(Document {
        about: part(bytes).map_err(SnapshotError::Damaged)?,
        looks: part(bytes).map_err(SnapshotError::Damaged)?,
        scrubbed,
        environment,
        answers,
    })
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Foreign(error) => {
                write!(f, "neither a folder nor a snapshot of `wirelane snapshot`: {error}")
            }
            SnapshotError::Format(format) => write!(
                f,
                "a snapshot of format {format:?}, and this program reads {FORMAT:?}; use the program that took it"
            ),
            SnapshotError::Damaged(error) => {
                write!(f, "a damaged snapshot: {error}; take it again")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Foreign(error) | SnapshotError::Damaged(error) => Some(error),
            SnapshotError::Format(_) => None,
        }
    }
}

fn part<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tail {
    scrubbed: BTreeSet<String>,
    environment: BTreeMap<String, String>,
    answers: Answers,
}

/// What stands first in a snapshot.
pub(super) const FORMAT: &str = "wirelane snapshot 1";
/// A machine with hundreds of functions has a few MiB.
const LONGEST: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text.as_bytes()).err().expect("refused").to_string()
    }

    #[test]
    fn a_newer_format_is_refused_by_its_name_whatever_else_it_holds() {
        let reason = refused(r#"{"format": "wirelane snapshot 2", "files": [1, 2]}"#);
        assert!(reason.contains(r#""wirelane snapshot 2""#), "{reason}");
        assert!(reason.contains(FORMAT), "{reason}");
    }

    #[test]
    fn what_is_damaged_or_no_snapshot_says_so() {
        for text in ["", "{}", "[]", "hello", r#"{"format": 1}"#, "\u{0}"] {
            assert!(refused(text).starts_with("neither a folder nor a snapshot"), "{text}");
        }
        for text in [
            r#"{"format": "wirelane snapshot 1", "files": [1, 2]}"#,
            r#"{"format": "wirelane snapshot 1", "files": {"/a": 7}}"#,
            r#"{"format": "wirelane snapshot 1", "answers": {"rdma": {"links": 7}}}"#,
        ] {
            assert!(refused(text).starts_with("a damaged snapshot"), "{text}");
        }
    }

    #[test]
    fn what_a_newer_program_of_the_same_format_adds_is_passed_over() {
        let text =
            r#"{"format": "wirelane snapshot 1", "weather": {"rain": true}, "about": "lab 3"}"#;
        assert_eq!(parse(text.as_bytes()).expect("read").about.about.as_deref(), Some("lab 3"));
    }
}
