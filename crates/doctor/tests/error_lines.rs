//! Error lines from public issues: how many are explained as what they are (see `error_lines/README.md`).

use doctor::explain::parse;

/// A line of a file, and what its first explanation says.
struct Scored<'f> {
    subject: &'f str,
    issue: &'f str,
    line: &'f str,
    explained: String,
}

impl Scored<'_> {
    fn is_right(&self) -> bool {
        self.explained == self.subject
    }
}

/// Fails if fewer than nine of ten lines have the right subject first. A line that is not known is wrong.
#[track_caller]
fn assert_nine_of_ten(file: &str) {
    let scored: Vec<Scored<'_>> = file.lines().map(score).collect();
    let wrong: Vec<&Scored<'_>> = scored.iter().filter(|one| !one.is_right()).collect();
    let right = scored.len() - wrong.len();
    println!("{right} of {} lines right", scored.len());
    let list: Vec<String> = wrong
        .iter()
        .map(|one| format!("{} not {} ({}): {}", one.explained, one.subject, one.issue, one.line))
        .collect();
    assert!(scored.len() > 100, "{} lines", scored.len());
    assert!(right * 10 >= scored.len() * 9, "{right} of {}:\n{}", scored.len(), list.join("\n"));
}

fn score(row: &str) -> Scored<'_> {
    let mut fields = row.splitn(3, '\t');
    let mut field = || fields.next().unwrap_or_else(|| panic!("three fields in {row:?}"));
    let (subject, issue, line) = (field(), field(), field());
    let first = parse(line).into_iter().next();
    let explained = first.map_or("unknown".to_owned(), |error| format!("{:?}", error.subject));
    Scored { subject, issue, line, explained }
}

#[test]
fn lines_that_rules_were_written_from() {
    assert_nine_of_ten(include_str!("error_lines/development.tsv"));
}

#[test]
fn lines_that_nobody_saw_while_writing_rules() {
    assert_nine_of_ten(include_str!("error_lines/held_out.tsv"));
}
