//! Errors of the disk.

use std::fmt;

/// The operation, why it failed, and what to try.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    text: String,
}

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The disk, or a quota on it, is full: may be retried.
    Full,
    /// Reading or writing failed.
    Failed,
    /// A checksum does not match, or the database is corrupt.
    Damaged,
    /// Another process uses the directory.
    InUse,
    /// The directory cannot be opened: not readable, of another program, or of a newer version.
    Refused,
}

impl Error {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Error { kind, text: text.into() }
    }

    /// An error of SQLite.
    pub(crate) fn of(call: &str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        };
        let (kind, fix) = match error.sqlite_error_code() {
            Some(DiskFull) => (Kind::Full, "free space on the disk"),
            Some(DatabaseCorrupt | NotADatabase) => {
                (Kind::Damaged, "check it with `wirelane kv fsck`, and restore a backup if needed")
            }
            Some(CannotOpen | PermissionDenied | ReadOnly) => {
                (Kind::Refused, "check the files' owner and permissions")
            }
            _ => (Kind::Failed, "see `dmesg` for disk errors"),
        };
        Error::new(kind, format!("{call}: {error} — {fix}"))
    }

    /// An injected error, for tests of failing disks.
    pub fn injected(kind: Kind) -> Self {
        Error::new(kind, "write to disk: injected by a test — end the test")
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
