//! Sizes (`64KiB`, `4096`) and seconds (`0.5`).

use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || "write a size such as 4096, 64KiB, 1MiB or 1GiB".to_owned();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &text[digits.len()..] {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return Err(invalid()),
        };
        let number: usize = digits.parse().map_err(|_| invalid())?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
        bytes.map(Size).ok_or_else(invalid)
    }
}

/// Formats bytes in the largest unit that divides them.
pub(crate) fn format(bytes: usize) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Seconds, from a hundredth to an hour.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.01..=3600.0).contains(number));
    number.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, from 0.01 to 3600".to_owned())
}

/// The same, or 0.
pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => seconds(text).map_err(|why| format!("{why}, or 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        let size = |text: &str| text.parse::<Size>().ok().map(|size| size.0);
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(size("1GiB"), Some(1 << 30));
        for wrong in ["", "KiB", "1KB", "1.5MiB", "-1", "0", "99999999999GiB", "1 KiB"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        assert_eq!(
            [0, 65, 3 << 10, 1 << 20, 2 << 30].map(format),
            ["0 B", "65 B", "3 KiB", "1 MiB", "2 GiB"]
        );
    }

    #[test]
    fn seconds_have_limits() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "NaN", "inf", "3601", "1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds_or_none("0"), Ok(Duration::ZERO));
        assert!(seconds_or_none("-1").is_err());
    }
}
