//! What can be wrong with a request, before the store is asked.

use std::fmt;

use tonic::{Code, Status};

use crate::SESSION_ID_BYTES;
use crate::limits::{MAX_ITEMS, MAX_KEY_BYTES, MAX_TTL_MS};

/// A request that is not valid. As a [`Status`] it includes what the caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no key.
    KeyEmpty,
    /// The key has so many bytes.
    KeyTooLong(usize),
    /// The key shall live for so many milliseconds.
    Ttl(u64),
    /// `if_version` is 0, which no key has.
    VersionZero,
    /// The session's id has so many bytes.
    SessionId(usize),
    /// An attempt has the number 0.
    SequenceZero,
    /// Reading shall begin behind the value's end.
    BehindEnd {
        /// Where it shall begin.
        offset: u64,
        /// How long the value is.
        length: u64,
    },
    /// There are so many items in one request.
    TooManyItems(usize),
}

impl Error {
    /// The status code that a caller gets.
    pub fn code(&self) -> Code {
        match self {
            Error::BehindEnd { .. } => Code::OutOfRange,
            _ => Code::InvalidArgument,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyEmpty => write!(f, "the key is empty — give it 1 to {MAX_KEY_BYTES} bytes"),
            Error::KeyTooLong(bytes) => {
                write!(f, "the key has {bytes} bytes — {MAX_KEY_BYTES} are the most")
            }
            Error::Ttl(ttl) => write!(
                f,
                "ttl_ms is {ttl} — choose 1 to {MAX_TTL_MS} milliseconds, or leave it out for a key \
                 that does not expire"
            ),
            Error::VersionZero => {
                f.write_str("if_version is 0, which no key has — use if_absent for a new key")
            }
            Error::SessionId(bytes) => write!(
                f,
                "the attempt's session has {bytes} bytes — send the {SESSION_ID_BYTES} that \
                 OpenSession has answered"
            ),
            Error::SequenceZero => {
                f.write_str("the attempt's sequence is 0 — number the writes of a session from 1")
            }
            Error::BehindEnd { offset, length } => write!(
                f,
                "offset {offset} is behind the value's end — the value has {length} bytes; call Stat first"
            ),
            Error::TooManyItems(items) => {
                write!(f, "{items} items in one request — {MAX_ITEMS} are the most; send several")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Status::new(error.code(), error.to_string())
    }
}
