//! The error of opening a tree.

use std::error::Error as Cause;
use std::fmt;
use std::path::{Path, PathBuf};

/// A root that does not exist, or is neither a folder nor a snapshot.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    cause: Box<dyn Cause + Send + Sync>,
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
