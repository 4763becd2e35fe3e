//! Sizes (`64KiB`, `4096`) and times (`0.5`, `500ms`, `5s`).

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

/// Seconds, or a number with a unit, from a hundredth of a second to an hour.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = number_of_seconds(text).filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        "write seconds or a time such as 500ms, 5s or 2m, from 0.01 to 3600 seconds".to_owned()
    })
}

/// Of a number with the unit ms, s, m or h, or of seconds.
fn number_of_seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|number| number * unit)
}

/// The same, or 0.
pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    match number_of_seconds(text) {
        Some(0.0) => Ok(Duration::ZERO),
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
        for (text, milliseconds) in
            [("5s", 5000), ("500ms", 500), ("1.5m", 90_000), ("1h", 3_600_000)]
        {
            assert_eq!(seconds(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["", "0", "-1", "NaN", "inf", "3601", "s", "1d", "2h", "1 s", "5ms"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (seconds_or_none("0"), seconds_or_none("0s")),
            (Ok(Duration::ZERO), Ok(Duration::ZERO))
        );
        assert!(seconds_or_none("-1").is_err());
    }
}
