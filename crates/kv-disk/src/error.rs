//! What can go wrong with a disk.

use std::fmt;

/// What was tried, why it failed, and what to do.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    text: String,
}

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The disk, or a quota on it, is full: it may be tried again.
    Full,
    /// Reading or writing failed.
    Failed,
    /// What was read is not what was written.
    Damaged,
    /// Another process has the directory.
    InUse,
    /// The directory is not ours to open: not readable, of another program, of a newer version.
    Refused,
}

impl Error {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Error { kind, text: text.into() }
    }

    /// Why SQLite did not do something.
    pub(crate) fn of(call: &str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        };
        let (kind, fix) = match error.sqlite_error_code() {
            Some(DiskFull) => (Kind::Full, "make room on the disk"),
            Some(DatabaseCorrupt | NotADatabase) => {
                (Kind::Damaged, "look with `wirelane kv fsck`, and restore a backup if need be")
            }
            Some(CannotOpen | PermissionDenied | ReadOnly) => {
                (Kind::Refused, "see who owns the files, and whether they may be written")
            }
            _ => (Kind::Failed, "see the kernel's log for faults of the disk"),
        };
        Error::new(kind, format!("{call}: {error} — {fix}"))
    }

    /// An error that did not happen: for tests that let disks fail.
    pub fn injected(kind: Kind) -> Self {
        Error::new(kind, "write to disk: as a test wants it — end the test")
    }

    /// What a caller can act on.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
