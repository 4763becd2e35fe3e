//! Lines that are recognized by their words. In each table specific phrases come before general ones.

mod kernel;
mod program;

use super::Subject;
use super::scan::has_word_start;

/// Words that appear together in a line, and what they mean.
#[derive(Debug)]
pub(super) struct Phrase {
    /// Starts of words that the line must all contain, in lower case.
    words: &'static [&'static str],
    pub(super) subject: Subject,
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
}

/// The first phrase that matches the line.
pub(super) fn find(line: &str) -> Option<&'static Phrase> {
    let lower = line.to_lowercase();
    program::TABLE
        .iter()
        .chain(kernel::TABLE)
        .find(|phrase| phrase.words.iter().all(|word| has_word_start(&lower, word)))
        .or_else(|| kernel::is_link_down(&lower).then_some(&kernel::LINK_DOWN))
}

const fn row(
    words: &'static [&'static str],
    subject: Subject,
    title: &'static str,
    meaning: &'static str,
) -> Phrase {
    Phrase { words, subject, title, meaning }
}
