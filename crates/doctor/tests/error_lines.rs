//! Error lines from public issues: how many are explained as what they are (see `error_lines/README.md`).
#![allow(missing_docs, reason = "a test")]

use doctor::explain::parse;

/// A line of a file, and what its first explanation says.
struct Scored<'f> {
    /// One class, or several that are right, separated by `|`.
    classes: &'f str,
    issue: &'f str,
    line: &'f str,
    explained: String,
}

impl Scored<'_> {
    fn is_right(&self) -> bool {
        self.classes.split('|').any(|class| class == self.explained)
    }
}

fn score(row: &str) -> Scored<'_> {
    let mut fields = row.splitn(3, '\t');
    let mut field = || fields.next().unwrap_or_else(|| panic!("three fields in {row:?}"));
    let (classes, issue, line) = (field(), field(), field());
    let first = parse(line).into_iter().next();
    let explained = first.map_or("unknown".to_owned(), |error| format!("{:?}", error.class));
    Scored { classes, issue, line, explained }
}

/// The lines of a file and the number of those with the right class. A line that is not known is wrong.
fn score_all(file: &str) -> (Vec<Scored<'_>>, usize) {
    let scored: Vec<Scored<'_>> = file.lines().map(score).collect();
    let right = scored.iter().filter(|one| one.is_right()).count();
    (scored, right)
}

#[test]
fn lines_that_rules_were_written_from_are_right() {
    let (scored, right) = score_all(include_str!("error_lines/development.tsv"));
    assert!(scored.len() > 500, "{} lines", scored.len());
    let wrong = scored.iter().filter(|one| !one.is_right());
    let list: Vec<String> = wrong
        .map(|one| format!("{} not {} ({}): {}", one.explained, one.classes, one.issue, one.line))
        .collect();
    let wanted = scored.len() * RIGHT_OF_HUNDRED / 100;
    assert!(right >= wanted, "{right} of {}:\n{}", scored.len(), list.join("\n"));
}

/// Of each hundred lines of `development.tsv` so many must be right.
const RIGHT_OF_HUNDRED: usize = 93;

/// Prints no line: who writes rules does not read them.
#[test]
fn lines_that_were_not_read_while_writing_rules_are_not_explained_worse() {
    for (name, file, right_percent) in HELD_OUT {
        let (scored, right) = score_all(file);
        assert!(right * 100 >= scored.len() * right_percent, "{name}: {right} of {}", scored.len());
    }
}

/// Files, and how many of each hundred lines must be right: as many as when they were scored. The aim is 90.
const HELD_OUT: [(&str, &str, usize); 3] = [
    ("fourth_held_out.tsv", include_str!("error_lines/fourth_held_out.tsv"), 72),
    ("held_out.tsv", include_str!("error_lines/held_out.tsv"), 82),
    ("third_held_out.tsv", include_str!("error_lines/third_held_out.tsv"), 88),
];

#[test]
fn harmless_lines_are_not_explained() {
    let lines: Vec<&str> = include_str!("error_lines/harmless.txt").lines().collect();
    assert!(lines.len() >= 40, "{} lines", lines.len());
    let explained: Vec<String> = lines
        .iter()
        .flat_map(|line| parse(line))
        .map(|error| format!("{:?} ({}): {}", error.class, error.title, error.line))
        .collect();
    assert_eq!(explained, Vec::<String>::new());
}
