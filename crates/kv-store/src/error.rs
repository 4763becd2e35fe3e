//! What can be refused, with its cause and fix.

use std::fmt;

use crate::Key;

/// Why bytes are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// A key has at least one byte.
    Empty,
    /// It is longer than [`Key::MAX`].
    TooLong {
        /// How long it is, in bytes.
        length: usize,
    },
}

/// Why a value was not kept. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The key was to be absent and is not.
    Exists {
        /// The version it has.
        version: u64,
    },
    /// The key was to have a version and is absent.
    Absent,
    /// The key was to have another version.
    OtherVersion {
        /// The version it has.
        version: u64,
    },
    /// The condition held, but the index has no room for another key, and nothing may be evicted.
    IndexFull,
}

/// Why there is no memory for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// It would not fit into the empty pool.
    TooLong {
        /// The longest value that would, in bytes.
        most: u64,
    },
    /// The pool is full, and nothing may be evicted or nothing is left to evict.
    Full {
        /// The length asked for, in bytes.
        needed: u64,
        /// Bytes that no value and no size class holds.
        free: u64,
        /// Bytes of values that readers have pinned.
        pinned: u64,
    },
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadKey::Empty => write!(f, "the key is empty — give it at least one byte"),
            BadKey::TooLong { length } => write!(
                f,
                "the key has {length} bytes, more than {} — use a shorter one, such as a digest",
                Key::MAX
            ),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Exists { version } => write!(f, "the key exists, with version {version}"),
            Refused::Absent => write!(f, "the key does not exist"),
            Refused::OtherVersion { version } => {
                write!(f, "the key has version {version} by now — read it again before changing it")
            }
            Refused::IndexFull => {
                write!(
                    f,
                    "no room for another key — delete some, allow eviction, or enlarge the index"
                )
            }
        }
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRoom::TooLong { most } => write!(
                f,
                "the value is longer than the pool, which holds {most} bytes — enlarge the pool \
                 or cut the value into several"
            ),
            NoRoom::Full { needed, free, pinned } => write!(
                f,
                "no room for {needed} bytes: {free} free, {pinned} pinned by readers — delete \
                 values, allow eviction, enlarge the pool, or try again when readers are done"
            ),
        }
    }
}

impl std::error::Error for BadKey {}
impl std::error::Error for Refused {}
impl std::error::Error for NoRoom {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_says_what_is_short_and_what_to_try() {
        let text = NoRoom::Full { needed: 4096, free: 100, pinned: 7 }.to_string();
        assert!(text.contains("4096 bytes: 100 free, 7 pinned"), "{text}");
        assert!(text.contains("enlarge the pool"), "{text}");
    }
}
