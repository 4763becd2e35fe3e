//! Errors, with their cause and fix.

use std::fmt;

use crate::Key;

/// Why bytes are not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidKey {
    /// A key has at least one byte.
    Empty,
    /// It is longer than [`Key::MAX_BYTES`].
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

/// Why a commit or a delete changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// The condition requires that the key is absent, and it exists.
    Exists {
        /// Its current version.
        version: u64,
    },
    /// The condition requires a version, and the key is absent.
    Absent,
    /// The condition requires another version.
    OtherVersion {
        /// The current version.
        version: u64,
    },
    /// The condition is met, but the index is full, and nothing may be evicted.
    IndexFull,
}

/// Why memory for a value cannot be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveError {
    /// It would not fit even into the empty pool.
    TooLong {
        /// The longest possible value, in bytes.
        max: u64,
    },
    /// The pool is full, and nothing may be evicted or nothing is left to evict.
    Full {
        /// The requested length, in bytes.
        needed: u64,
        /// Bytes that belong to no value and no size class.
        free: u64,
        /// Bytes of pinned values.
        pinned: u64,
    },
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidKey::Empty => write!(f, "the key is empty — give it at least one byte"),
            InvalidKey::TooLong { length } => write!(
                f,
                "the key has {length} bytes, more than {} — use a shorter one, such as a digest",
                Key::MAX_BYTES
            ),
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Exists { version } => write!(f, "the key exists, with version {version}"),
            WriteError::Absent => write!(f, "the key does not exist"),
            WriteError::OtherVersion { version } => {
                write!(
                    f,
                    "the key has changed, its version is {version} — read it again before changing it"
                )
            }
            WriteError::IndexFull => {
                write!(f, "the index is full — delete keys, allow eviction, or enlarge the index")
            }
        }
    }
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::TooLong { max } => write!(
                f,
                "the value does not fit into the pool of {max} bytes — enlarge the pool \
                 or split the value"
            ),
            ReserveError::Full { needed, free, pinned } => write!(
                f,
                "out of memory for {needed} bytes: {free} free, {pinned} pinned by readers — delete \
                 values, allow eviction, enlarge the pool, or retry when readers are done"
            ),
        }
    }
}

impl std::error::Error for InvalidKey {}
impl std::error::Error for WriteError {}
impl std::error::Error for ReserveError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_states_the_sizes_and_the_fix() {
        let text = ReserveError::Full { needed: 4096, free: 100, pinned: 7 }.to_string();
        assert!(text.contains("4096 bytes: 100 free, 7 pinned"), "{text}");
        assert!(text.contains("enlarge the pool"), "{text}");
    }
}
