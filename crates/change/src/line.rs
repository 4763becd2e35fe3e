//! A line of ours in a file of others, such as /etc/fstab.

use super::{Content, Error, Machine, Reader, State, Target};

/// Whether the file contains it.
pub(super) fn read(reader: &Reader<'_>, path: &str, line: &str) -> Result<State, Error> {
    let there = text(reader, path)?.lines().any(|known| known == line);
    Ok(State::all(if there { THERE } else { NOT_THERE }, 1))
}

/// Appends it, or removes it; other lines are unchanged.
pub(super) fn set(
    machine: &Machine,
    path: &str,
    line: &str,
    wanted: Option<&str>,
) -> Result<(), Error> {
    let text = text(&machine.reader()?, path)?;
    let text = if wanted == Some(THERE) { with(&text, line) } else { without(&text, line) };
    machine.set_file(path, &State::text(text))
}

fn text(reader: &Reader<'_>, path: &str) -> Result<String, Error> {
    match reader.read(&Target::File { path: path.to_owned() })? {
        State::File { content: Content::Text(text), .. } => Ok(text),
        State::Absent => Ok(String::new()),
        _ => Err(Error::failed(format!("{path} is not a text file: no line can be added to it"))),
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
    fn an_added_line_is_removed_and_other_lines_stay() {
        let fstab = "# mine\n/dev/sda1 / ext4 defaults 0 1\n";
        let added = with(fstab, "a:/d /m nfs rdma 0 0");
        assert_eq!(without(&added, "a:/d /m nfs rdma 0 0"), fstab);
        assert_eq!(with("no end", "x"), "no end\nx\n");
        assert_eq!(without("a\nx", "x"), "a\n");
    }
}
