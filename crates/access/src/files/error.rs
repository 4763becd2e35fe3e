//! Why a file with credentials cannot be used.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// What is wrong with a file of keys, tokens or certificates. No secret is ever a part of it.
#[derive(Debug)]
pub struct FileError {
    /// As in `read the key file …`.
    file: &'static str,
    path: PathBuf,
    kind: FileErrorKind,
}

/// What kind of thing is wrong with it.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// It cannot be read.
    Unreadable(io::Error),
    /// Others may read it too: who, and the file's mode.
    Exposed(&'static str, u32),
    /// It says what it cannot mean.
    Invalid(String),
}

impl FileError {
    pub(super) fn new(file: &'static str, path: &Path, kind: FileErrorKind) -> Self {
        FileError { file, path: path.to_owned(), kind }
    }

    /// What callers can tell apart.
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
                write!(f, "{error} — check the path and who may read it")
            }
            FileErrorKind::Exposed(whose, mode) => write!(
                f,
                "{whose} may use it (mode {mode:03o}), so it is no secret — `chmod 600 {path}`, or make a new one if \
                 somebody may have read it"
            ),
            FileErrorKind::Invalid(why) => f.write_str(why),
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
