//! What went wrong while a machine was changed, or before.

use std::fmt;

/// Why something could not be done. The text names the thing, the cause and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    refused: bool,
    text: String,
}

impl Error {
    /// The machine did not allow it.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Error { refused: false, text: text.into() }
    }

    /// We did not want to: nothing was touched.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Error { refused: true, text: text.into() }
    }

    /// A call that failed on something.
    pub(super) fn call(what: &str, on: &str, error: impl Into<std::io::Error>) -> Self {
        Error::failed(format!("{what} {on}: {}", error.into()))
    }

    /// Whether nothing was touched.
    pub fn is_refusal(&self) -> bool {
        self.refused
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
