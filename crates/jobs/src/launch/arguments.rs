//! A command line, each part with its reason.

use super::planned_launch::Reason;

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) words: Vec<String>,
    pub(super) reasons: Vec<Reason>,
}

impl Arguments {
    /// Words that are one thing, and why they are there.
    pub(super) fn add(&mut self, words: &[&str], why: &str) {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self.reasons.push(Reason { what: words.join(" "), why: why.to_owned() });
    }

    /// Words that need no reason.
    pub(super) fn plain<W: Into<String>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words.extend(words.into_iter().map(Into::into));
    }
}
