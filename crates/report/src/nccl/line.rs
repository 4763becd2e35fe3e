//! Removes colours and launchers' prefixes from a line.

use std::borrow::Cow;

/// A line without colours and the prefix of a launcher, truncated to the limit.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    let line = cut(line).trim_end_matches(['\r', '\n']);
    if !line.contains(|letter: char| letter.is_control()) {
        return Cow::Borrowed(without_prefix(line));
    }
    let line = without_colours(line);
    Cow::Owned(without_prefix(&line).to_owned())
}

/// Truncates a line that is too long.
fn cut(line: &str) -> &str {
    line.char_indices().nth(MAX_CHARS).map_or(line, |(end, _)| &line[..end])
}

/// Without terminal control sequences; tabs become spaces.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\t' => plain.push(' '),
            '\u{1b}' if letters.next_if_eq(&'[').is_some() => {
                // A sequence ends with its first byte in this range.
                letters.by_ref().find(|end| ('@'..='~').contains(end));
            }
            _ if letter.is_control() => {}
            _ => plain.push(letter),
        }
    }
    plain
}

/// Open MPI has `[1,0]<stdout>:`, Slurm `0: `, MPICH `[0] `.
fn without_prefix(line: &str) -> &str {
    for mark in ["<stdout>:", "<stderr>:", "<stddiag>:"] {
        if let Some((before, after)) = line.split_once(mark)
            && before.ends_with(']')
        {
            return after.strip_prefix(' ').filter(|rest| rest.starts_with('#')).unwrap_or(after);
        }
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((rank, rest)) = line.split_once(": ")
        && digits(rank.trim_start())
    {
        return rest;
    }
    match line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
        Some((rank, rest)) if digits(rank) => rest,
        _ => line,
    }
}

/// The maximum length of a line.
const MAX_CHARS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_colours_are_removed() {
        let row = "     1048576        262144     float";
        for line in [
            row.to_owned(),
            format!("{row}\r"),
            format!("[1,0]<stdout>:{row}"),
            format!("[prterun-node1-4711@1,0]<stdout>:{row}"),
            format!("Tue Nov 17 10:11:12 2026[1,12]<stderr>:{row}"),
            format!("0: {row}"),
            format!(" 12: {row}"),
            format!("[3] {row}"),
            format!("\u{1b}[1;32m{row}\u{1b}[0m"),
        ] {
            assert_eq!(plain(&line), row, "{line:?}");
        }
        let nccl = "node1:42:43 [0] NCCL INFO Using network IB";
        assert_eq!(plain(nccl), nccl);
        assert_eq!(plain("[1,0]<stdout>: # Using devices"), "# Using devices");
        assert_eq!(plain(&"x".repeat(10_000)).len(), MAX_CHARS);
    }
}
