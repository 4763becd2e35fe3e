//! Numbers for narrow columns.

/// Five characters at most: `0`, `7.5`, `123`, `1.23k`, `45.6M`, `789G`.
pub(super) fn short(number: f64) -> String {
    if !number.is_finite() || number < 0.0 {
        return "?".to_owned();
    }
    if number > 0.0 && number < 0.05 {
        return "<0.1".to_owned();
    }
    let mut number = number;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // A number that rounds to 1000 uses the next unit.
    while number >= 999.5 {
        let Some(next) = units.next() else { return ">999P".to_owned() };
        (number, unit) = (number / 1000.0, next);
    }
    match number {
        0.0 => "0".to_owned(),
        number if number >= 99.95 => format!("{number:.0}{unit}"),
        number if number >= 9.995 => trimmed(&format!("{number:.1}"), unit),
        number if unit.is_empty() => trimmed(&format!("{number:.1}"), unit),
        number => trimmed(&format!("{number:.2}"), unit),
    }
}

/// Bytes in binary units: `1.5G`.
pub(super) fn bytes(bytes: f64) -> String {
    let mut number = bytes;
    let mut unit = "B";
    for next in ["K", "M", "G", "T", "P"] {
        if number < 1023.5 {
            break;
        }
        (number, unit) = (number / 1024.0, next);
    }
    match number {
        number if number >= 99.95 || unit == "B" => format!("{number:.0}{unit}"),
        number => trimmed(&format!("{number:.1}"), unit),
    }
}

/// A link rate in Gb/s.
pub(super) fn gbps(mbps: u64) -> String {
    trimmed(&format!("{:.1}", mbps as f64 / 1000.0), "")
}

/// A time: `850ns`, `12.3µs`, `4.5ms`, `1.2s`; `us` without Unicode.
pub(super) fn time(nanoseconds: f64, unicode: bool) -> String {
    let micro = if unicode { "µs" } else { "us" };
    match nanoseconds {
        time if time < 1e3 => format!("{time:.0}ns"),
        time if time < 1e6 => format!("{:.1}{micro}", time / 1e3),
        time if time < 1e9 => format!("{:.1}ms", time / 1e6),
        time => format!("{:.1}s", time / 1e9),
    }
}

/// Without trailing zeros; the number has a decimal point.
fn trimmed(number: &str, unit: &str) -> String {
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}

const UNITS: &[&str] = &["", "k", "M", "G", "T", "P"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_five_characters_at_most() {
        for (number, text) in [
            (0.0, "0"),
            (0.01, "<0.1"),
            (0.5, "0.5"),
            (7.0, "7"),
            (123.4, "123"),
            (999.4, "999"),
            (999.6, "1k"),
            (10.0, "10"),
            (1234.0, "1.23k"),
            (1200.0, "1.2k"),
            (20_000.0, "20k"),
            (45_600_000.0, "45.6M"),
            (3.998e11, "400G"),
            (1e30, ">999P"),
            (f64::NAN, "?"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!((bytes(512.0), bytes(1.5 * 1024.0)), ("512B".into(), "1.5K".into()));
        assert_eq!((gbps(400_000), gbps(2_500)), ("400".into(), "2.5".into()));
        assert_eq!((time(850.0, true), time(12_340.0, true)), ("850ns".into(), "12.3µs".into()));
    }
}
