//! The prefix of metric names.

use std::fmt;
use std::str::FromStr;

/// A prefix of metric names; `wirelane` by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The text is not a valid prefix of a metric's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPrefix(String);

impl Default for Prefix {
    fn default() -> Self {
        Prefix("wirelane".to_owned())
    }
}

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let good = |at: usize, letter: u8| match letter {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => true,
            b'0'..=b'9' => at > 0,
            _ => false,
        };
        match text.bytes().enumerate().all(|(at, letter)| good(at, letter)) && !text.is_empty() {
            true => Ok(Prefix(text.to_owned())),
            false => Err(InvalidPrefix(text.to_owned())),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidPrefix(text) = self;
        write!(
            f,
            "`{text}` is not a valid prefix of a metric name — use letters, digits and _, such as wirelane"
        )
    }
}

impl std::error::Error for InvalidPrefix {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_prefixes_are_refused() {
        assert_eq!(
            "dwcp".parse::<Prefix>().map(|prefix| prefix.to_string()),
            Ok("dwcp".to_owned())
        );
        for wrong in ["", "1a", "a-b", "a b", "a{", "é"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
