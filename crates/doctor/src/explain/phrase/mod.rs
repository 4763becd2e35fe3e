//! Lines that are known by their words. In each table the particular stands before the general.

mod kernel;
mod program;

use super::Subject;
use super::scan::begins;

/// Words that stand in a line together, and what they mean.
#[derive(Debug)]
pub(super) struct Phrase {
    /// All of these begin in the line, in small letters.
    words: &'static [&'static str],
    pub(super) subject: Subject,
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
}

/// The first phrase that the line has.
pub(super) fn find(line: &str) -> Option<&'static Phrase> {
    let lower = line.to_lowercase();
    program::TABLE
        .iter()
        .chain(kernel::TABLE)
        .find(|phrase| phrase.words.iter().all(|word| begins(&lower, word)))
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
