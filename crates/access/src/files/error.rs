//! Why a file with credentials cannot be used.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// An error about a file of keys, tokens or certificates. It never contains a secret.
#[derive(Debug)]
pub struct FileError {
    /// As in `read the key file …`.
    file: &'static str,
    path: PathBuf,
    kind: FileErrorKind,
}

/// The kind of error.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// Other users can access the file: who, and its mode.
    Exposed(&'static str, u32),
    /// The content is invalid.
    Invalid(String),
}

impl FileError {
    pub(super) fn new(file: &'static str, path: &Path, kind: FileErrorKind) -> Self {
        FileError { file, path: path.to_owned(), kind }
    }

    /// The kind of error.
    pub fn kind(&self) -> &FileErrorKind {
        &self.kind
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "read the {} {path}: ", self.file)?;
        match &self.kind {
            FileErrorKind::Unreadable(error) => {
                write!(f, "{error} — check the path and its permissions")
            }
            FileErrorKind::Exposed(whose, mode) => write!(
                f,
                "{whose} can access the file (mode {mode:03o}) — run `chmod 600 {path}`, and replace the secret if others \
                 may have read it"
            ),
            FileErrorKind::Invalid(reason) => f.write_str(reason),
        }
    }
}

impl error::Error for FileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.kind {
            FileErrorKind::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
