//! Which rows of the tables a line satisfies, in one pass: logs have millions of lines, and the tables a thousand words.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{INFORMS, JOB, Phrase, RDMA, TABLES, event};
use crate::explain::scan::is_edge;

pub(super) static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

/// All words of all tables, and the rows that use them.
pub(super) struct Index {
    /// Words by their first two bytes, which are ASCII.
    by_start: Vec<Vec<Word>>,
    rows: Vec<Row>,
    /// The number of words.
    words: usize,
}

/// A word of the tables.
struct Word {
    text: &'static str,
    number: usize,
    uses: Vec<Use>,
}

/// A group of a row that a word satisfies.
#[derive(Clone, Copy)]
struct Use {
    row: usize,
    group: u8,
    /// Whether the group only tells that the line is about RDMA or a job.
    is_context: bool,
}

/// A phrase, with its words as numbers.
struct Row {
    phrase: &'static Phrase,
    is_event: bool,
    /// One bit for each group.
    all_groups: u32,
    /// None of these may be present.
    without: Vec<usize>,
}

/// The rows that a line satisfies, in the order of the tables.
#[derive(Default)]
pub(super) struct Matches {
    pub(super) events: Vec<&'static Phrase>,
    pub(super) phrases: Vec<&'static Phrase>,
}

impl Index {
    fn new() -> Self {
        let mut words: Vec<Word> = Vec::new();
        let mut numbers: HashMap<&'static str, usize> = HashMap::new();
        let mut number = |text: &'static str, words: &mut Vec<Word>| {
            *numbers.entry(text).or_insert_with(|| {
                words.push(Word { text, number: words.len(), uses: Vec::new() });
                words.len() - 1
            })
        };
        let events = event::TABLE.iter().map(|phrase| (phrase, true));
        let phrases = TABLES.iter().flat_map(|table| table.iter()).map(|phrase| (phrase, false));
        let mut rows = Vec::new();
        for (phrase, is_event) in events.chain(phrases) {
            for (group, alternatives) in (0..).zip(phrase.words) {
                let is_context = CONTEXTS.contains(alternatives);
                for text in alternatives.split('|') {
                    let word = number(text, &mut words);
                    words[word].uses.push(Use { row: rows.len(), group, is_context });
                }
            }
            // A row about RDMA or jobs in general does not apply to lines that only inform.
            let is_general = phrase.words.iter().any(|words| CONTEXTS.contains(words));
            let informs = if is_general { INFORMS } else { "" };
            let without = phrase.without.split('|').chain(informs.split('|'));
            let without = without.filter(|text| !text.is_empty());
            let without = without.map(|text| number(text, &mut words)).collect();
            let all_groups = (1 << phrase.words.len()) - 1;
            rows.push(Row { phrase, is_event, all_groups, without });
        }
        let mut by_start: Vec<Vec<Word>> = Vec::new();
        by_start.resize_with(128 * 128, Vec::new);
        let count = words.len();
        for word in words {
            if let [first, second, ..] = *word.text.as_bytes()
                && let Some(start) = start(first, second)
            {
                by_start[start].push(word);
            }
        }
        Index { by_start, rows, words: count }
    }

    /// The rows that a line, which is in lower case, satisfies.
    pub(super) fn matches(&self, lower: &str) -> Matches {
        let mut groups = vec![0u32; self.rows.len()];
        let mut present = vec![false; self.words];
        let mut touched = Vec::new();
        let files = SourceFile::all(lower);
        let bytes = lower.as_bytes();
        for (at, pair) in bytes.windows(2).enumerate() {
            let Some(start) = start(pair[0], pair[1]) else { continue };
            // Most positions are within a word: there only words that start with a punctuation mark count.
            if pair[0].is_ascii_alphanumeric() && at > 0 && bytes[at - 1].is_ascii_alphanumeric() {
                continue;
            }
            for word in &self.by_start[start] {
                if present[word.number]
                    || !bytes[at..].starts_with(word.text.as_bytes())
                    || !is_edge(lower[..at].chars().next_back(), word.text)
                {
                    continue;
                }
                let is_hidden = files.iter().any(|file| file.hides(at, word.text));
                present[word.number] = !is_hidden;
                for used in word.uses.iter().filter(|used| used.is_context || !is_hidden) {
                    if groups[used.row] == 0 {
                        touched.push(used.row);
                    }
                    groups[used.row] |= 1 << used.group;
                }
            }
        }
        touched.sort_unstable();
        let mut matches = Matches::default();
        for row in touched {
            let Row { phrase, is_event, all_groups, without } = &self.rows[row];
            if groups[row] != *all_groups || without.iter().any(|word| present[*word]) {
                continue;
            }
            if *is_event {
                matches.events.push(phrase);
            } else {
                matches.phrases.push(phrase);
            }
        }
        matches
    }
}

/// A source file that a line names: `/src/modules/transport/ib.cpp:7` tells which program printed it, but not what failed.
#[derive(Debug)]
struct SourceFile {
    start: usize,
    /// Where the file's own name starts.
    name: usize,
    end: usize,
}

impl SourceFile {
    fn all(lower: &str) -> Vec<SourceFile> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
        let mut at = 0;
        let mut files = Vec::new();
        for token in lower.split(|letter| !is_part(letter)) {
            let start = at;
            // Separators are one character each, which may be longer than a byte.
            at += token.len();
            at += lower[at..].chars().next().map_or(0, char::len_utf8);
            let path = token.trim_end_matches('.');
            if path.rsplit_once('.').is_some_and(|(_, kind)| SOURCE_FILES.contains(&kind)) {
                let name = start + path.rfind('/').map_or(0, |slash| slash + 1);
                files.push(SourceFile { start, name, end: start + path.len() });
            }
        }
        files
    }

    /// Whether a word only is a part of the path. Of the file's own name, `ib_mlx5_log` or `socket.cc` counts, and
    /// `transport` does not.
    fn hides(&self, at: usize, word: &str) -> bool {
        let is_plain = word.bytes().all(|letter| letter.is_ascii_alphabetic());
        let limit = if is_plain { self.end } else { self.name };
        self.start <= at && at + word.len() <= limit
    }
}

/// The ends of names of source files.
const SOURCE_FILES: &[&str] =
    &["c", "cc", "cpp", "cu", "cuh", "cxx", "go", "h", "hh", "hpp", "inl", "py", "rs"];

/// Groups that only tell what a line is about. They count in the path of a source file too.
const CONTEXTS: &[&str] = &[RDMA, JOB];

fn start(first: u8, second: u8) -> Option<usize> {
    (first < 128 && second < 128).then(|| usize::from(first) * 128 + usize::from(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_source_files_are_not_part_of_the_message() {
        let hidden = |line: &str, word: &str| {
            let at = line.find(word).expect("a word of the line");
            SourceFile::all(line).iter().any(|file| file.hides(at, word))
        };
        let line = "é /src/modules/transport/ib_log.cpp:7: socket.cc connect failed in /dev/infiniband/uverbs0";
        for word in ["modules", "transport", "log"] {
            assert!(hidden(line, word), "{word}");
        }
        for word in ["ib_log", "socket.cc", "connect", "infiniband", "transport/ib_log"] {
            assert!(!hidden(line, word), "{word}");
        }
    }

    #[test]
    fn every_word_can_be_found() {
        for row in &INDEX.rows {
            let groups = row.phrase.words.iter().chain([&row.phrase.without]);
            for word in groups.flat_map(|words| words.split('|')) {
                let can_be_found = word.is_ascii() && word.len() > 1;
                let is_empty_group = word.is_empty() && row.phrase.without.is_empty();
                assert!(can_be_found || is_empty_group, "{word:?} of {}", row.phrase.title);
                assert_eq!(word, word.to_lowercase(), "{}", row.phrase.title);
            }
        }
    }
}
