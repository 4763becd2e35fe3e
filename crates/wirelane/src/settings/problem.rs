//! Something in a settings file: where it is, what it is, what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// One paragraph for the person who wrote the file.
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

/// Foreign text quoted in an error: short, and without characters that would move the cursor.
pub(crate) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    let mut short: String = text.chars().take(MAX).flat_map(char::escape_default).collect();
    if text.chars().nth(MAX).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}
