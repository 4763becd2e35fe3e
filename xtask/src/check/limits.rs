//! Counts that may only fall: limits on what is still to be removed, in a file.
//!
//! A row is a measure, a name and a number. Without a row the limit is 0.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::{Failure, shell};

/// Counts by name, such as `word listener` or `cycle fabric`.
pub(super) type Counts = BTreeMap<String, usize>;

/// Fails if a count is above its limit, or below it: then the limit must be lowered, so that the count cannot rise again.
pub(super) fn check(measure: &str, counts: &Counts) -> Result<(), Failure> {
    let limits = read()?;
    let counts: Counts =
        counts.iter().map(|(name, count)| (format!("{measure} {name}"), *count)).collect();
    let of_measure = |name: &&String| name.split(' ').next() == Some(measure);
    for name in counts.keys().chain(limits.keys().filter(of_measure)) {
        let (count, limit) = (of(&counts, name), of(&limits, name));
        if count > limit {
            return Err(format!("{name}: {count}, at most {limit} allowed"));
        }
        if count < limit {
            return Err(format!(
                "{name}: {count}, below the limit of {limit}: run `cargo xtask check --lower-limits`"
            ));
        }
    }
    Ok(())
}

/// Rewrites the file with these counts, except where they are above the limit.
pub(super) fn lower(measures: &[(&str, Counts)]) -> Result<(), Failure> {
    let limits = read()?;
    let mut text = String::from(HEADER);
    for (measure, counts) in measures {
        for (name, count) in counts {
            let name = format!("{measure} {name}");
            let limit = of(&limits, &name).min(*count);
            if limit > 0 {
                text.push_str(&format!("{name} {limit}\n"));
            }
        }
    }
    fs::write(path(), text).map_err(|error| format!("write {FILE}: {error}"))
}

fn read() -> Result<Counts, Failure> {
    let text = fs::read_to_string(path()).map_err(|error| format!("read {FILE}: {error}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Counts, Failure> {
    let rows = text.lines().filter(|row| !row.starts_with('#') && !row.is_empty());
    let row = |row: &str| {
        let (name, count) = row.rsplit_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    rows.map(|text| row(text).ok_or_else(|| format!("{FILE}: `{text}` is not a row"))).collect()
}

fn of(counts: &Counts, name: &str) -> usize {
    counts.get(name).copied().unwrap_or(0)
}

fn path() -> PathBuf {
    shell::repository().join(FILE)
}

const FILE: &str = "xtask/limits.txt";

const HEADER: &str =
    "# Limits on what is still to be removed. `cargo xtask check` fails if a count exceeds its limit;
# `cargo xtask check --lower-limits` lowers the limits to the current counts.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_several_words() {
        let counts = parse("# about\nword in flight 3\n\ncycle fabric 16\n").unwrap();
        assert_eq!(of(&counts, "word in flight"), 3);
        assert_eq!(of(&counts, "cycle fabric"), 16);
        assert_eq!(of(&counts, "cycle node"), 0);
        assert!(parse("word listener many").is_err());
    }
}
