//! Banned words: terms that were private to this project. CONTRIBUTING.md lists the terms to use.

use std::collections::BTreeMap;

use super::limits::Counts;
use super::sources::{self, Source};
use crate::Failure;

/// The number of occurrences of each banned word: in names, messages, comments and documents.
pub(super) fn count() -> Result<Counts, Failure> {
    let sources = sources::with_extensions(EXTENSIONS)?;
    let mut counts = Counts::new();
    for (word, found) in find(&sources) {
        counts.insert(word.to_owned(), found.len());
    }
    Ok(counts)
}

/// The places of one of them.
pub(super) fn list(word: &str) -> Result<Vec<String>, Failure> {
    let sources = sources::with_extensions(EXTENSIONS)?;
    Ok(find(&sources).remove(word).unwrap_or_default())
}

fn find(sources: &[Source]) -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (line, text) in source.text.lines().enumerate() {
            for word in words_of(text, &source.path) {
                found.entry(word).or_default().push(format!("{}:{}", source.path, line + 1));
            }
        }
    }
    found
}

/// The banned words of a line, one for each occurrence.
fn words_of(line: &str, path: &str) -> Vec<&'static str> {
    let parts = parts(line);
    let mut found = Vec::new();
    for at in 0..parts.len() {
        for (word, folders) in BANNED {
            let same = |(index, word): (usize, &str)| {
                parts.get(at + index).is_some_and(|part| is(part, word))
            };
            // Fast path: most words differ in their first letter.
            if parts[at].as_bytes()[0].eq_ignore_ascii_case(&word.as_bytes()[0])
                && word.split(' ').enumerate().all(same)
                && folders.iter().any(|folder| path.starts_with(folder))
            {
                found.push(*word);
            }
        }
    }
    found
}

fn is(part: &str, word: &str) -> bool {
    // `MOST_BYTES` and the type `Way` are banned, "most" and "way" are not.
    if word.as_bytes()[0].is_ascii_uppercase() {
        return part == word;
    }
    let plural = part.len() == word.len() + 1 && part.ends_with(['s', 'S']);
    (plural || part.len() == word.len()) && part[..word.len()].eq_ignore_ascii_case(word)
}

/// The words of a line, also within names: `DoorConfig` and `door_config` are door and config.
fn parts(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 0..=bytes.len() {
        let letter = bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let humps = at > start && letter && {
            let (before, here, after) = (bytes[at - 1], bytes[at], bytes.get(at + 1));
            let lower_after = after.is_some_and(u8::is_ascii_lowercase);
            here.is_ascii_uppercase() && (before.is_ascii_lowercase() || lower_after)
        };
        if !letter || humps {
            if at > start {
                parts.push(&line[start..at]);
            }
            start = if letter { at } else { at + 1 };
        }
    }
    parts
}

const EXTENSIONS: &[&str] = &[
    "css", "html", "js", "json", "md", "mjs", "proto", "rs", "service", "sh", "toml", "yaml", "yml",
];

/// Each with the folders in which it is banned. A word in lower case also matches its plural and any capitalisation;
/// one with capitals matches exactly.
const BANNED: &[(&str, &[&str])] = &[
    ("bell", &["crates/fabric/", "crates/kv-client/"]),
    ("carried", ANYWHERE),
    ("courier", ANYWHERE),
    ("crew", ANYWHERE),
    ("debtor", ANYWHERE),
    ("desk", &["crates/"]),
    ("door", ANYWHERE),
    (
        "figure",
        &[
            "crates/doctor/",
            "crates/report/src/nccl/",
            "crates/report/src/trend/",
            "crates/wirelane/",
            "docs/",
        ],
    ),
    ("flights", ANYWHERE),
    ("goes by", ANYWHERE),
    ("grave", ANYWHERE),
    ("guest", &["crates/access/", "crates/fabric/", "crates/kv-"]),
    ("half within", ANYWHERE),
    ("happening", ANYWHERE),
    ("keeper", ANYWHERE),
    ("landing", ANYWHERE),
    ("ledger", ANYWHERE),
    ("lent", ANYWHERE),
    ("letters", &["crates/fabric/src/link/"]),
    ("librarian", ANYWHERE),
    ("limbo", ANYWHERE),
    ("loan", ANYWHERE),
    ("mailbox", ANYWHERE),
    ("mend", ANYWHERE),
    ("mouth", ANYWHERE),
    ("nonsense", ANYWHERE),
    ("patience", ANYWHERE),
    // In the singular it is also a kernel module.
    ("processors", ANYWHERE),
    ("remedies", ANYWHERE),
    ("remedy", ANYWHERE),
    ("resting", ANYWHERE),
    ("roster", ANYWHERE),
    ("scribe", ANYWHERE),
    ("seat", &["crates/kv-", "crates/fabric/"]),
    ("shelf", ANYWHERE),
    ("shelves", ANYWHERE),
    ("shop", ANYWHERE),
    ("stranger", ANYWHERE),
    ("taken back", ANYWHERE),
    ("takes back", ANYWHERE),
    ("teller", ANYWHERE),
    ("tidy", ANYWHERE),
    ("trouble", ANYWHERE),
    ("under way", ANYWHERE),
    ("undertaker", ANYWHERE),
    ("vault", ANYWHERE),
    ("voice", ANYWHERE),
    ("Asker", ANYWHERE),
    ("Board", &["crates/fabric/"]),
    ("Books", ANYWHERE),
    ("Card", &["crates/fabric/"]),
    ("Fate", ANYWHERE),
    ("Heard", ANYWHERE),
    ("LEAST", ANYWHERE),
    ("Line", &["crates/kv-client/"]),
    ("MOST", ANYWHERE),
    ("News", ANYWHERE),
    ("Note", &["crates/kv-client/"]),
    ("Number", &["crates/fabric/"]),
    // Each safety note names who keeps the promise.
    ("SAFETY as above", ANYWHERE),
    ("SAFETY as for", ANYWHERE),
    ("SAFETY as in", ANYWHERE),
    ("Talk", ANYWHERE),
    ("Talker", ANYWHERE),
    ("Told", ANYWHERE),
    ("Tools", &["crates/kv-server/"]),
    ("Track", &["crates/fabric/"]),
    ("Way", ANYWHERE),
    ("Ways", ANYWHERE),
    ("Wish", ANYWHERE),
];

const ANYWHERE: &[&str] = &[""];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(
            parts("let DoorConfig = at_desk(HTTPServer);"),
            ["let", "Door", "Config", "at", "desk", "HTTP", "Server"]
        );
        assert_eq!(parts("MOST_BYTES"), ["MOST", "BYTES"]);
    }

    #[test]
    fn plurals_phrases_and_constants_are_found() {
        assert_eq!(words_of("Doors are under_way, outdoors", "a.rs"), ["door", "under way"]);
        assert_eq!(words_of("at most MOST_BYTES, almost", "a.rs"), ["MOST"]);
        assert_eq!(words_of("// SAFETY: as above.", "a.rs"), ["SAFETY as above"]);
        assert!(words_of("// SAFETY: as many as above", "a.rs").is_empty());
        assert_eq!(words_of("a Track", "crates/fabric/src/a.rs"), ["Track"]);
        assert!(words_of("a Track, on its way", "crates/wirelane/src/a.rs").is_empty());
    }
}
