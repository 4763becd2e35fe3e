//! What is known of a value besides its bytes, and what may be asked of it before a change.

/// Milliseconds on the caller's clock, which never goes back. The store has no clock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// What is known of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the value.
    pub length: u64,
    /// Which commit made it. Later commits have greater versions, and none is given twice.
    pub version: u64,
    /// From when on it is gone.
    pub expires: Option<Moment>,
}

/// What must hold for a change to be made. A value that has expired is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// The key does not exist.
    IfAbsent,
    /// The key exists and has this version.
    IfVersion(u64),
}

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The version the value has now.
    pub version: u64,
    /// Whether the key had another value before.
    pub replaced: bool,
}

impl Condition {
    /// Whether this holds where the key has version `current`, or is absent.
    pub(crate) fn check(self, current: Option<u64>) -> Result<(), crate::Refused> {
        match (self, current) {
            (Condition::Always, _) | (Condition::IfAbsent, None) => Ok(()),
            (Condition::IfAbsent, Some(version)) => Err(crate::Refused::Exists { version }),
            (Condition::IfVersion(_), None) => Err(crate::Refused::Absent),
            (Condition::IfVersion(wanted), Some(version)) if wanted == version => Ok(()),
            (Condition::IfVersion(_), Some(version)) => {
                Err(crate::Refused::OtherVersion { version })
            }
        }
    }
}
