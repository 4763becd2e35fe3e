//! A command line, with the reasons for its parts.

use super::planned_launch::Reason;

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) words: Vec<String>,
    pub(super) reasons: Vec<Reason>,
}

impl Arguments {
    /// Adds words that belong together, with their reason.
    pub(super) fn add(&mut self, words: &[&str], why: &str) {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self.reasons.push(Reason { what: words.join(" "), why: why.to_owned() });
    }

    /// Adds words without a reason.
    pub(super) fn plain<W: Into<String>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words.extend(words.into_iter().map(Into::into));
    }
}
