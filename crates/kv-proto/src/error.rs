//! Invalid requests.

use std::fmt;

use crate::SESSION_ID_BYTES;
use crate::limits::{MAX_ITEMS, MAX_KEY_BYTES, MAX_TTL_MS};

/// Why a request is invalid. Its text includes the fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key is empty.
    KeyEmpty,
    /// The key is too long: its bytes.
    KeyTooLong(usize),
    /// The time to live is out of range: its milliseconds.
    Ttl(u64),
    /// `if_version` is 0, which no key has.
    VersionZero,
    /// The session's id has the wrong length: its bytes.
    SessionId(usize),
    /// A write id's sequence is 0.
    SequenceZero,
    /// The offset is past the value's end.
    OffsetPastEnd {
        /// The requested offset.
        offset: u64,
        /// The value's length.
        length: u64,
    },
    /// The request has too many items: their number.
    TooManyItems(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyEmpty => write!(f, "the key is empty — give it 1 to {MAX_KEY_BYTES} bytes"),
            Error::KeyTooLong(bytes) => {
                write!(f, "the key has {bytes} bytes — the limit is {MAX_KEY_BYTES}")
            }
            Error::Ttl(ttl) => write!(
                f,
                "ttl_ms is {ttl} — choose 1 to {MAX_TTL_MS} milliseconds, or leave it out for a key \
                 that does not expire"
            ),
            Error::VersionZero => {
                f.write_str("if_version must not be 0 — use if_absent for a new key")
            }
            Error::SessionId(bytes) => write!(
                f,
                "the write id's session has {bytes} bytes — send the {SESSION_ID_BYTES} bytes from \
                 OpenSession"
            ),
            Error::SequenceZero => {
                f.write_str("the write id's sequence is 0 — number the writes of a session from 1")
            }
            Error::OffsetPastEnd { offset, length } => write!(
                f,
                "offset {offset} is past the value's end — the value has {length} bytes; call Stat first"
            ),
            Error::TooManyItems(items) => {
                write!(
                    f,
                    "{items} items in one request — the limit is {MAX_ITEMS}; send several requests"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
