//! Conditions of writes.

use std::fmt;

use crate::Error;

/// What must hold of a key for a write to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// The key does not exist.
    IfAbsent,
    /// The key has this version, which is not 0.
    IfVersion(u64),
}

/// A condition did not hold. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotMet {
    /// The key's version now; `None` if there is no such key.
    pub current: Option<u64>,
}

impl Condition {
    /// From `if_version` of a request to delete.
    pub fn of_version(if_version: Option<u64>) -> Result<Condition, Error> {
        match if_version {
            None => Ok(Condition::Always),
            Some(0) => Err(Error::VersionZero),
            Some(version) => Ok(Condition::IfVersion(version)),
        }
    }

    /// Checks the condition against the key's current version (`None`: no such key).
    pub fn check(self, current: Option<u64>) -> Result<(), NotMet> {
        let met = match self {
            Condition::Always => true,
            Condition::IfAbsent => current.is_none(),
            Condition::IfVersion(version) => current == Some(version),
        };
        if met { Ok(()) } else { Err(NotMet { current }) }
    }
}

impl fmt::Display for NotMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("condition not met: ")?;
        match self.current {
            Some(version) => write!(f, "the key has version {version} — read it again and decide"),
            None => f.write_str("there is no such key — use if_absent for a new one"),
        }
    }
}

impl std::error::Error for NotMet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_checked_against_the_current_version() {
        assert_eq!(Condition::Always.check(None), Ok(()));
        assert_eq!(Condition::IfAbsent.check(None), Ok(()));
        assert_eq!(Condition::IfAbsent.check(Some(3)), Err(NotMet { current: Some(3) }));
        assert_eq!(Condition::IfVersion(3).check(Some(3)), Ok(()));
        assert_eq!(Condition::IfVersion(3).check(Some(4)), Err(NotMet { current: Some(4) }));
        assert_eq!(Condition::IfVersion(3).check(None), Err(NotMet { current: None }));
    }

    #[test]
    fn a_delete_of_version_zero_is_refused() {
        assert_eq!(Condition::of_version(None), Ok(Condition::Always));
        assert_eq!(Condition::of_version(Some(0)), Err(Error::VersionZero));
        assert_eq!(Condition::of_version(Some(1)), Ok(Condition::IfVersion(1)));
    }
}
