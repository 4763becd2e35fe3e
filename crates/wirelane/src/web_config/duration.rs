//! Durations in Go's format: `300ms`, `1.5h`, `2h45m`; a bare number is nanoseconds.

use std::time::Duration;

pub(super) fn parse(text: &str) -> Option<Duration> {
    if let Ok(nanoseconds) = text.parse() {
        return Some(Duration::from_nanos(nanoseconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_ends);
        let unit_ends = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        let seconds = number.parse::<f64>().ok()? * seconds_of(unit)?;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_parsed() {
        let ms = Duration::from_millis;
        for (text, time) in [
            ("0", ms(0)),
            ("1000000", ms(1)),
            ("300ms", ms(300)),
            ("1.5s", ms(1500)),
            ("1m30s", ms(90_000)),
            ("2h", ms(7_200_000)),
        ] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        for wrong in ["", "s", "5 s", "-1s", "1d", "1..5s", "9e99h"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
