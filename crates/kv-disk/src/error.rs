//! Errors of the disk.

use std::fmt;

/// The operation, why it failed, and what to try.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
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
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error { kind, text: text.into() }
    }

    /// An error of SQLite.
    pub(crate) fn of(call: &str, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        };
        let (kind, fix) = match error.sqlite_error_code() {
            Some(DiskFull) => (ErrorKind::Full, "free space on the disk"),
            Some(DatabaseCorrupt | NotADatabase) => (
                ErrorKind::Damaged,
                "the index is damaged: stop the store, remove wirelane.db, wirelane.db-wal and wirelane.db-shm, and \
                 start it: the index is made again from the log",
            ),
            Some(PermissionDenied | ReadOnly) => {
                (ErrorKind::Refused, "check the files' owner and permissions")
            }
            // SQLite gives no cause.
            Some(CannotOpen) => (
                ErrorKind::Refused,
                "check the files' owner and permissions, and that the disk has free space",
            ),
            _ => (
                ErrorKind::Failed,
                "see `dmesg` for disk errors, and check that the disk has free space",
            ),
        };
        Error::new(kind, format!("{call}: {error} — {fix}"))
    }

    /// An error of the operating system.
    pub(crate) fn of_system(call: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{
            AlreadyExists, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem,
            StorageFull,
        };
        let (kind, fix) = match error.kind() {
            StorageFull | QuotaExceeded => (ErrorKind::Full, "free space on the disk"),
            PermissionDenied | ReadOnlyFilesystem | NotFound | AlreadyExists => {
                (ErrorKind::Refused, "check the files' owner and permissions")
            }
            _ => (ErrorKind::Failed, "see `dmesg` for disk errors"),
        };
        Error::new(kind, format!("{call}: {error} — {fix}"))
    }

    /// An error of a sync. It is never `Full`: a second sync would succeed although the data is not on the disk.
    pub(crate) fn of_sync(error: &std::io::Error) -> Self {
        let text = format!("sync to disk: {error} — see `dmesg` for disk errors");
        Error::new(ErrorKind::Failed, text)
    }

    /// An injected error, for tests of failing disks.
    pub fn injected(kind: ErrorKind) -> Self {
        Error::new(kind, "write to disk: injected by a test — end the test")
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
