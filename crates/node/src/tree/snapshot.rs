//! A snapshot: a JSON document with the files that were read and the results of queries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cache::FileCache;
use crate::Error;
use crate::queries::QueryResults;

/// The description of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The time it was taken (RFC 3339, UTC).
    pub taken: Option<String>,
    /// The version of the program that took it.
    pub wirelane: Option<String>,
    /// A note of the person who took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// The document, borrowed to be written.
#[derive(Serialize)]
pub(super) struct Written<'s> {
    pub(super) format: &'static str,
    #[serde(flatten)]
    pub(super) about: &'s About,
    /// Files and variables that were left out because of secrets.
    pub(super) redacted: &'s BTreeSet<String>,
    pub(super) environment: &'s BTreeMap<String, String>,
    #[serde(rename = "answers")]
    pub(super) query_results: &'s QueryResults,
    #[serde(flatten)]
    pub(super) files: &'s FileCache,
}

/// Why a snapshot cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are not a snapshot.
    NotASnapshot(serde_json::Error),
    /// It has another format, with this name.
    Format(String),
    /// It has the right format, but a part of it is invalid.
    Damaged(serde_json::Error),
}

/// The parsed document.
pub(super) struct Document {
    pub(super) about: About,
    pub(super) redacted: BTreeSet<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) query_results: QueryResults,
    pub(super) files: FileCache,
}

/// Reads a snapshot's file.
pub(super) fn read(path: &Path) -> Result<Document, Error> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Error::new(path, error))?;
    file.take(MAX_SNAPSHOT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::new(path, error))?;
    if bytes.len() as u64 > MAX_SNAPSHOT_BYTES {
        return Err(Error::new(
            path,
            format!("not a snapshot: longer than {} MiB", MAX_SNAPSHOT_BYTES >> 20),
        ));
    }
    parse(&bytes).map_err(|reason| Error::new(path, reason))
}

/// Parses the format first, since a newer one may have other fields; then each part, so that the whole
/// document is never in memory as JSON.
pub(super) fn parse(bytes: &[u8]) -> Result<Document, SnapshotError> {
    let Head { format } = part(bytes).map_err(SnapshotError::NotASnapshot)?;
    if format != FORMAT {
        return Err(SnapshotError::Format(format));
    }
    let Tail { redacted, environment, query_results } =
        part(bytes).map_err(SnapshotError::Damaged)?;
    Ok(Document {
        about: part(bytes).map_err(SnapshotError::Damaged)?,
        files: part(bytes).map_err(SnapshotError::Damaged)?,
        redacted,
        environment,
        query_results,
    })
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::NotASnapshot(error) => {
                write!(f, "neither a folder nor a snapshot of `wirelane snapshot`: {error}")
            }
            SnapshotError::Format(format) => write!(
                f,
                "the snapshot has format {format:?}, but this program reads {FORMAT:?}; use the program that took it"
            ),
            SnapshotError::Damaged(error) => {
                write!(f, "damaged snapshot: {error}; take it again")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::NotASnapshot(error) | SnapshotError::Damaged(error) => Some(error),
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
    /// Snapshots of 0.1 have `scrubbed`.
    #[serde(alias = "scrubbed")]
    redacted: BTreeSet<String>,
    environment: BTreeMap<String, String>,
    #[serde(rename = "answers")]
    query_results: QueryResults,
}

/// The field `format` of a snapshot.
pub(super) const FORMAT: &str = "wirelane snapshot 1";
/// A machine with hundreds of functions has a few MiB.
const MAX_SNAPSHOT_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text.as_bytes()).err().expect("refused").to_string()
    }

    #[test]
    fn another_format_is_refused_with_its_name() {
        let reason = refused(r#"{"format": "wirelane snapshot 2", "files": [1, 2]}"#);
        assert!(reason.contains(r#""wirelane snapshot 2""#), "{reason}");
        assert!(reason.contains(FORMAT), "{reason}");
    }

    #[test]
    fn damaged_snapshots_and_other_files_are_refused() {
        for text in ["", "{}", "[]", "hello", r#"{"format": 1}"#, "\u{0}"] {
            assert!(refused(text).starts_with("neither a folder nor a snapshot"), "{text}");
        }
        for text in [
            r#"{"format": "wirelane snapshot 1", "files": [1, 2]}"#,
            r#"{"format": "wirelane snapshot 1", "files": {"/a": 7}}"#,
            r#"{"format": "wirelane snapshot 1", "answers": {"rdma": {"links": 7}}}"#,
        ] {
            assert!(refused(text).starts_with("damaged snapshot"), "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text =
            r#"{"format": "wirelane snapshot 1", "weather": {"rain": true}, "about": "lab 3"}"#;
        assert_eq!(parse(text.as_bytes()).expect("read").about.about.as_deref(), Some("lab 3"));
    }
}
