//! Why a tree cannot be read at all.

use std::error::Error as Cause;
use std::fmt;
use std::path::{Path, PathBuf};

/// A root that is not there, or neither a folder nor a snapshot.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    cause: Box<dyn Cause + Send + Sync>,
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

impl Error {
    pub(crate) fn new(path: &Path, cause: impl Into<Box<dyn Cause + Send + Sync>>) -> Self {
        Error { path: path.to_owned(), cause: cause.into() }
    }

    /// The root.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl Cause for Error {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        Some(&*self.cause)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Foreign(error) => {
                write!(f, "neither a folder nor a snapshot of `wirelane snapshot`: {error}")
            }
            SnapshotError::Format(format) => write!(
                f,
                "a snapshot of format {format:?}, and this program reads {:?}; use the program that took it",
                crate::tree::FORMAT
            ),
            SnapshotError::Damaged(error) => {
                write!(f, "a damaged snapshot: {error}; take it again")
            }
        }
    }
}

impl Cause for SnapshotError {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        match self {
            SnapshotError::Foreign(error) | SnapshotError::Damaged(error) => Some(error),
            SnapshotError::Format(_) => None,
        }
    }
}
