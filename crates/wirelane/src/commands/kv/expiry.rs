//! Times to live: `500ms`, `30s`, `10m`, `1h`, `7d`.

use std::str::FromStr;
use std::time::Duration;

use kv_proto::limits::MAX_TTL_MS;

/// From a millisecond to the maximum of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ttl(pub(super) Duration);

impl FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || "write a time such as 500ms, 30s, 10m, 1h or 7d".to_owned();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: u64 = match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(invalid()),
        };
        let number: u64 = digits.parse().map_err(|_| invalid())?;
        let time = number.checked_mul(unit).filter(|time| *time <= MAX_TTL_MS);
        match time {
            Some(0) => Err("must be at least 1ms".to_owned()),
            Some(time) => Ok(Ttl(Duration::from_millis(time))),
            None => Err("longer than a hundred years: omit it for no expiry".to_owned()),
        }
    }
}

/// The remaining time as text.
pub(super) fn format(expires_in: Option<Duration>) -> String {
    match expires_in {
        None => "never".to_owned(),
        Some(time) if time < Duration::from_secs(100) => {
            format!("in {:.1} s", time.as_secs_f64())
        }
        Some(time) => {
            let seconds = time.as_secs();
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            format!("in {hours} h {minutes:02} min {:02} s", seconds % 60)
        }
    }
}

/// The remaining time in milliseconds, for JSON; `null` for no expiry.
pub(super) fn milliseconds(expires_in: Option<Duration>) -> Option<u64> {
    expires_in.map(|time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_formatted() {
        let ttl = |text: &str| text.parse::<Ttl>().ok().map(|ttl| ttl.0.as_millis());
        assert_eq!(ttl("500ms"), Some(500));
        assert_eq!(ttl("30s"), Some(30_000));
        assert_eq!(
            (ttl("10m"), ttl("1h"), ttl("1d")),
            (Some(600_000), Some(3_600_000), Some(86_400_000))
        );
        for wrong in ["", "30", "s", "0s", "-1s", "1.5h", "40000d", "99999999999999999999s", "1 s"]
        {
            assert_eq!(ttl(wrong), None, "{wrong}");
        }
        assert_eq!(format(Some(Duration::from_millis(1500))), "in 1.5 s");
        assert_eq!(format(Some(Duration::from_secs(3_661))), "in 1 h 01 min 01 s");
    }
}
