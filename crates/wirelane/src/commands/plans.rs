//! Shared by the commands that change a machine: plans, confirmation, reports.

pub(crate) mod apply;
pub(crate) mod report;

use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::output::Failure;

/// A refusal has exit code 1, an error 3; the text names the item to skip.
pub(crate) fn failure(error: change::Error) -> Failure {
    let text = match error.item() {
        Some(item) => format!("{error}; pass `--skip {item}` to apply the rest"),
        None => error.to_string(),
    };
    if error.is_refusal() { Failure::no(text) } else { Failure::failed(text) }
}

/// Asks for confirmation on the terminal; an error if stdin is not one.
pub(crate) fn confirm(command: &str, changes: usize) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{command}: stdin is not a terminal; pass --yes to apply without confirmation"
        )));
    }
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "apply these {changes} changes? [y/N] ").and_then(|()| stderr.flush());
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::failed(format!("read the answer: {error}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// The current time, in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats seconds since 1970: `2026-11-15 17:19:00 UTC`.
pub(crate) fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Year, month and day of a day since 1970. Computed in years that start in March, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // Since the 1st of March of the year 0.
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_794_763_140), "2026-11-15 17:19:00 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59:59 UTC");
    }
}
