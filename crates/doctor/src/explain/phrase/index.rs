//! Which words of the tables a line contains, in one pass: logs have millions of lines, and the tables a thousand words.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Phrase, TABLES, event};
use crate::explain::scan::is_edge;

pub(super) static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

/// All words of all tables, by their first two bytes.
pub(super) struct Index {
    by_start: HashMap<[u8; 2], Vec<(&'static str, usize)>>,
    words: usize,
    pub(super) events: Vec<Row>,
    pub(super) phrases: Vec<Row>,
}

/// A phrase, with its words as numbers.
pub(super) struct Row {
    pub(super) phrase: &'static Phrase,
    /// One of each must be present.
    groups: Vec<Vec<usize>>,
}

/// The words that a line contains.
pub(super) struct Present(Vec<bool>);

impl Index {
    fn new() -> Self {
        let mut numbers: HashMap<&'static str, usize> = HashMap::new();
        let mut number = |word: &'static str| {
            let next = numbers.len();
            *numbers.entry(word).or_insert(next)
        };
        let mut row = |phrase: &'static Phrase| {
            let groups =
                phrase.words.iter().map(|words| words.split('|').map(&mut number).collect());
            Row { phrase, groups: groups.collect() }
        };
        let events = event::TABLE.iter().map(&mut row).collect();
        let phrases = TABLES.iter().flat_map(|table| table.iter()).map(&mut row).collect();
        let mut by_start: HashMap<[u8; 2], Vec<(&'static str, usize)>> = HashMap::new();
        for (word, number) in &numbers {
            if let [first, second, ..] = word.as_bytes() {
                by_start.entry([*first, *second]).or_default().push((word, *number));
            }
        }
        Index { by_start, words: numbers.len(), events, phrases }
    }

    /// The words in a line, which is in lower case.
    pub(super) fn words_in(&self, lower: &str) -> Present {
        let mut present = vec![false; self.words];
        let bytes = lower.as_bytes();
        for (at, pair) in bytes.windows(2).enumerate() {
            let Some(candidates) = self.by_start.get(pair) else { continue };
            for (word, number) in candidates {
                if bytes[at..].starts_with(word.as_bytes())
                    && is_edge(lower[..at].chars().next_back(), word)
                {
                    present[*number] = true;
                }
            }
        }
        Present(present)
    }
}

impl Row {
    pub(super) fn has_words(&self, present: &Present) -> bool {
        self.groups.iter().all(|group| group.iter().any(|number| present.0[*number]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_can_be_found() {
        for row in INDEX.events.iter().chain(&INDEX.phrases) {
            for word in row.phrase.words.iter().flat_map(|words| words.split('|')) {
                assert!(word.is_ascii() && word.len() > 1, "{word:?} of {}", row.phrase.title);
                assert_eq!(word, word.to_lowercase(), "{}", row.phrase.title);
            }
        }
    }
}
