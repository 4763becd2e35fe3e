//! A problem in a settings file: its place, what is wrong, and the fix.

use std::fmt;
use std::path::{Path, PathBuf};

/// A problem, displayed as `FILE:LINE: TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    file: PathBuf,
    line: usize,
    text: String,
}

impl Problem {
    pub(crate) fn at(file: &Path, line: usize, text: impl Into<String>) -> Self {
        Problem { file: file.to_owned(), line, text: text.into() }
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

/// Quotes text of the file in an error: shortened, with control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    let mut short: String = text.chars().take(MAX).flat_map(char::escape_default).collect();
    if text.chars().nth(MAX).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}
