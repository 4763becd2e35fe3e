//! Changes as a diff.

use std::collections::BTreeMap;

use super::{Change, State, Target};

/// The difference between the current state and the wanted one, in lines.
pub fn diff(change: &Change, now: &State) -> Vec<String> {
    // Its state is only present or absent; the line itself is more useful.
    if let Target::Line { line, .. } = &change.target {
        return vec![format!("+ {line}")];
    }
    match (now, &change.wanted) {
        (State::Values(now), State::Values(wanted)) => {
            values(&change.target.parts(), &words(now), &words(wanted))
        }
        (now, wanted) => lines(&text(now), &text(wanted)),
    }
}

/// A change in one line: `1500 → 9000`.
pub fn before_and_after(before: &State, wanted: &State) -> String {
    format!("{} → {}", brief(before), brief(wanted))
}

fn brief(state: &State) -> String {
    match state {
        State::Absent => "no file".to_owned(),
        State::File { content, .. } => format!("{} bytes", content.bytes().len()),
        State::Values(values) => {
            let values = words(values);
            let mut unique: Vec<&str> =
                values.iter().map(|v| v.as_deref().unwrap_or("-")).collect();
            unique.dedup();
            match unique.as_slice() {
                [] => "nothing".to_owned(),
                few if few.len() <= 4 => few.join(" "),
                many => format!("{} and others", many[0]),
            }
        }
    }
}

/// Values with single spaces between words: tabs would break columns.
fn words(values: &[Option<String>]) -> Vec<Option<String>> {
    let spaced = |value: &String| value.split_whitespace().collect::<Vec<_>>().join(" ");
    values.iter().map(|value| value.as_ref().map(spaced)).collect()
}

/// Values that change; equal changes of several parts are grouped.
fn values(parts: &[String], now: &[Option<String>], wanted: &[Option<String>]) -> Vec<String> {
    let mut groups: BTreeMap<(Option<&str>, &str), Vec<&str>> = BTreeMap::new();
    for ((part, now), wanted) in parts.iter().zip(now).zip(wanted) {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| now.as_deref() != Some(wanted)) {
            groups.entry((now.as_deref(), wanted)).or_default().push(part);
        }
    }
    let several = parts.len() > 1;
    let mut lines = Vec::new();
    for ((now, wanted), parts) in groups {
        let of = match parts.as_slice() {
            _ if !several => String::new(),
            [part] => format!("  ({part})"),
            parts => format!("  ({} and {} more)", parts[0], parts.len() - 1),
        };
        lines.extend(now.map(|now| format!("- {now}{of}")));
        lines.push(format!("+ {wanted}{of}"));
    }
    lines
}

fn text(state: &State) -> String {
    match state {
        State::File { content, .. } => String::from_utf8_lossy(content.bytes()).into_owned(),
        State::Absent | State::Values(_) => String::new(),
    }
}

/// Lines that differ, without the common lines at the beginning and at the end.
fn lines(now: &str, wanted: &str) -> Vec<String> {
    let (mut now, mut wanted): (Vec<_>, Vec<_>) = (now.lines().collect(), wanted.lines().collect());
    let same = now.iter().zip(&wanted).take_while(|(one, other)| one == other).count();
    now.drain(..same);
    wanted.drain(..same);
    while let (Some(one), Some(other)) = (now.last(), wanted.last())
        && one == other
    {
        now.pop();
        wanted.pop();
    }
    let gone = now.iter().map(|line| format!("- {line}"));
    gone.chain(wanted.iter().map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_listed() {
        let change = Change::file("/etc/x", "same\nnew\nend\n");
        let lines = diff(&change, &State::text("same\nold\nend\n"));
        assert_eq!(lines, ["- old", "+ new"]);
        assert_eq!(diff(&change, &State::Absent), ["+ same", "+ new", "+ end"]);
    }

    #[test]
    fn files_with_the_same_change_are_grouped() {
        let paths = (0..3).map(|cpu| format!("cpu{cpu}")).collect();
        let change = Change::values(paths, "performance");
        let now =
            State::Values(vec![Some("a".into()), Some("a".into()), Some("performance".into())]);
        assert_eq!(
            diff(&change, &now),
            ["- a  (cpu0 and 1 more)", "+ performance  (cpu0 and 1 more)"]
        );
        let one = Change::value("/mtu", "9000");
        assert_eq!(diff(&one, &State::all("1500", 1)), ["- 1500", "+ 9000"]);
    }
}
