//! A library's version.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// `2.21.5`; missing parts are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first NCCL that selects GIDs by address and version, not by index (2.21.5).
    pub const SELECTS_GIDS_BY_ADDRESS: Version = Version(2, 21, 0);
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || {
            format!(
                "{:?} is not a version such as 2.21.5",
                text.chars().take(40).collect::<String>()
            )
        };
        let parts: Vec<&str> = text.split('.').collect();
        let number = |at: usize| match parts.get(at) {
            None => Ok(0),
            Some(part) if part.bytes().all(|byte| byte.is_ascii_digit()) => {
                part.parse().map_err(|_| invalid())
            }
            Some(_) => Err(invalid()),
        };
        if !(2..=3).contains(&parts.len()) {
            return Err(invalid());
        }
        Ok(Version(number(0)?, number(1)?, number(2)?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let version = |text: &str| text.parse::<Version>();
        assert!(version("2.9.8").expect("one") < version("2.21").expect("one"));
        for text in ["2", "", "2.x", "2.1.1.1", "2.-1", "2.99999999999"] {
            assert!(version(text).is_err(), "{text}");
        }
    }
}
