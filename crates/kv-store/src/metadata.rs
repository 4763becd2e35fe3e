//! The metadata of values, and the conditions of changes.

/// Milliseconds on the caller's clock, which must be monotonic. The store has no clock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// The metadata of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Its length in bytes.
    pub length: u64,
    /// The version that its commit assigned. Versions increase with each commit and are unique.
    pub version: u64,
    /// When it expires.
    pub expires: Option<Timestamp>,
}

/// The condition of a change. An expired value is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// The key does not exist.
    IfAbsent,
    /// The key exists and has this version.
    IfVersion(u64),
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The version of the value.
    pub version: u64,
    /// Whether the key had a value before.
    pub replaced: bool,
}

impl Condition {
    /// Checks the condition against the key's current version; `None` if it is absent.
    pub(crate) fn check(self, current: Option<u64>) -> Result<(), crate::WriteError> {
        match (self, current) {
            (Condition::Always, _) | (Condition::IfAbsent, None) => Ok(()),
            (Condition::IfAbsent, Some(version)) => Err(crate::WriteError::Exists { version }),
            (Condition::IfVersion(_), None) => Err(crate::WriteError::Absent),
            (Condition::IfVersion(wanted), Some(version)) if wanted == version => Ok(()),
            (Condition::IfVersion(_), Some(version)) => {
                Err(crate::WriteError::OtherVersion { version })
            }
        }
    }
}
