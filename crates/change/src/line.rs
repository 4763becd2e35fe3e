//! A line of ours in a file that is somebody else's, as /etc/fstab.

use super::{Content, Error, Look, Machine, State, Target};

/// Whether it is there.
pub(super) fn read(look: &Look<'_>, path: &str, line: &str) -> Result<State, Error> {
    let there = text(look, path)?.lines().any(|known| known == line);
    Ok(State::all(if there { THERE } else { NOT_THERE }, 1))
}

/// Adds it at the end, or removes it; all else stays as it is.
pub(super) fn set(
    machine: &Machine,
    path: &str,
    line: &str,
    wanted: Option<&str>,
) -> Result<(), Error> {
    let text = text(&machine.look()?, path)?;
    let text = if wanted == Some(THERE) { with(&text, line) } else { without(&text, line) };
    machine.set_file(path, &State::text(text))
}

fn text(look: &Look<'_>, path: &str) -> Result<String, Error> {
    match look.at(&Target::File { path: path.to_owned() })? {
        State::File { content: Content::Text(text), .. } => Ok(text),
        State::Absent => Ok(String::new()),
        _ => Err(Error::failed(format!("{path} is no text: a line cannot be put there"))),
    }
}

fn with(text: &str, line: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}{line}\n")
}

fn without(text: &str, line: &str) -> String {
    text.split_inclusive('\n').filter(|known| known.trim_end_matches('\n') != line).collect()
}

pub(super) const THERE: &str = "there";
const NOT_THERE: &str = "not there";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_taken_away_and_others_lines_stay() {
        let fstab = "# mine\n/dev/sda1 / ext4 defaults 0 1\n";
        let added = with(fstab, "a:/d /m nfs rdma 0 0");
        assert_eq!(without(&added, "a:/d /m nfs rdma 0 0"), fstab);
        assert_eq!(with("no end", "x"), "no end\nx\n");
        assert_eq!(without("a\nx", "x"), "a\n");
    }
}
