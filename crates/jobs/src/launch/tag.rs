//! Which rank printed a line: mpirun and horovodrun mark it.

use serde::Serialize;

/// How a launcher marks lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// Open MPI 4 writes `[1,0]<stdout>:text`, horovodrun `[0]<stdout>:text`.
    Colon,
    /// Open MPI 5 writes `[1,0]<stdout>: text`.
    ColonSpace,
}

/// A line with its mark taken off.
#[derive(Debug, PartialEq, Eq)]
pub struct Tagged<'l> {
    /// Who printed it.
    pub rank: u32,
    /// What was printed.
    pub text: &'l str,
}

impl Tag {
    /// Takes the mark off; a line that has none is the launcher's own.
    pub fn untag(self, line: &str) -> Option<Tagged<'_>> {
        let (mark, rest) = line.strip_prefix('[')?.split_once(']')?;
        let rest = rest.strip_prefix("<stdout>:").or_else(|| rest.strip_prefix("<stderr>:"))?;
        let text = match self {
            Tag::Colon => rest,
            Tag::ColonSpace => rest.strip_prefix(' ').unwrap_or(rest),
        };
        let rank = mark.rsplit_once(',').map_or(mark, |(_, rank)| rank);
        Some(Tagged { rank: rank.parse().ok()?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launchers_mark_is_known() {
        for (tag, line, rank, text) in [
            (Tag::Colon, "[1,0]<stdout>:sum 6", 0, "sum 6"),
            (Tag::Colon, "[1,12]<stderr>:", 12, ""),
            (Tag::Colon, "[1,2]<stdout>:  indented", 2, "  indented"),
            (Tag::ColonSpace, "[1,3]<stdout>:  indented", 3, " indented"),
            (Tag::ColonSpace, "[prterun-a-71@1,3]<stdout>: two  words", 3, "two  words"),
            (Tag::Colon, "[7]<stdout>:epoch 1", 7, "epoch 1"),
        ] {
            assert_eq!(tag.untag(line), Some(Tagged { rank, text }), "{line}");
        }
    }

    #[test]
    fn other_lines_are_the_launchers_own() {
        for line in
            ["", "[", "[1,0]", "[1,0]<stdout>", "[x]<stdout>:a", "[1,0]<other>:a", "no slots"]
        {
            assert_eq!(Tag::Colon.untag(line), None, "{line}");
        }
    }
}
