//! Which rank printed a line: mpirun and horovodrun tag it.

use serde::Serialize;

/// How a launcher tags lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// Open MPI 4 writes `[1,0]<stdout>:text`, horovodrun `[0]<stdout>:text`.
    Colon,
    /// Open MPI 5 writes `[1,0]<stdout>: text`.
    ColonSpace,
}

/// A line without its tag.
#[derive(Debug, PartialEq, Eq)]
pub struct TaggedLine<'l> {
    /// The rank that printed it.
    pub rank: u32,
    /// The line.
    pub text: &'l str,
}

impl Tag {
    /// Removes the tag; `None`: a line of the launcher itself.
    pub fn untag(self, line: &str) -> Option<TaggedLine<'_>> {
        let (tag, rest) = line.strip_prefix('[')?.split_once(']')?;
        let rest = rest.strip_prefix("<stdout>:").or_else(|| rest.strip_prefix("<stderr>:"))?;
        let text = match self {
            Tag::Colon => rest,
            Tag::ColonSpace => rest.strip_prefix(' ').unwrap_or(rest),
        };
        let rank = tag.rsplit_once(',').map_or(tag, |(_, rank)| rank);
        Some(TaggedLine { rank: rank.parse().ok()?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_each_launcher_are_removed() {
        for (tag, line, rank, text) in [
            (Tag::Colon, "[1,0]<stdout>:sum 6", 0, "sum 6"),
            (Tag::Colon, "[1,12]<stderr>:", 12, ""),
            (Tag::Colon, "[1,2]<stdout>:  indented", 2, "  indented"),
            (Tag::ColonSpace, "[1,3]<stdout>:  indented", 3, " indented"),
            (Tag::ColonSpace, "[prterun-a-71@1,3]<stdout>: two  words", 3, "two  words"),
            (Tag::Colon, "[7]<stdout>:epoch 1", 7, "epoch 1"),
        ] {
            assert_eq!(tag.untag(line), Some(TaggedLine { rank, text }), "{line}");
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
