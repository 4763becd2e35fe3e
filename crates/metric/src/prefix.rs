//! The prefix of every metric's name.

use std::fmt;
use std::str::FromStr;

/// The first words of every metric's name; `wirelane` unless the user chose others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The text cannot begin a metric's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongPrefix(String);

impl Default for Prefix {
    fn default() -> Self {
        Prefix("wirelane".to_owned())
    }
}

impl FromStr for Prefix {
    type Err = WrongPrefix;

    fn from_str(text: &str) -> Result<Self, WrongPrefix> {
        let good = |at: usize, letter: u8| match letter {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => true,
            b'0'..=b'9' => at > 0,
            _ => false,
        };
        match text.bytes().enumerate().all(|(at, letter)| good(at, letter)) && !text.is_empty() {
            true => Ok(Prefix(text.to_owned())),
            false => Err(WrongPrefix(text.to_owned())),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WrongPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongPrefix(text) = self;
        write!(
            f,
            "`{text}` cannot begin a metric's name — use letters, digits and _, such as wirelane"
        )
    }
}

impl std::error::Error for WrongPrefix {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_word_that_prometheus_takes() {
        assert_eq!(
            "dwcp".parse::<Prefix>().map(|prefix| prefix.to_string()),
            Ok("dwcp".to_owned())
        );
        for wrong in ["", "1a", "a-b", "a b", "a{", "é"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
