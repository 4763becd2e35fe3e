//! Why a tree cannot be looked at at all.

use std::fmt;
use std::path::{Path, PathBuf};

/// A root that is not there, or not what it says it is.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    reason: String,
}

impl Error {
    pub(crate) fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Error { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for Error {}
