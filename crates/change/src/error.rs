//! Errors of planning and changing.

use std::fmt;
use std::io;

/// Why a change failed or was refused. The text names the thing, the cause and the fix.
#[derive(Debug)]
pub struct Error {
    refused: bool,
    text: String,
    item: Option<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A call failed; something may have been changed.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Error { refused: false, text: text.into(), item: None, cause: None }
    }

    /// It was refused before anything was changed.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Error { refused: true, ..Error::failed(text) }
    }

    /// A failed call on an object.
    pub(super) fn call(what: &str, on: &str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Error::failed(format!("{what} {on}: {error}")).caused_by(error)
    }

    /// The same, with its cause.
    pub(super) fn caused_by(
        self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error { cause: Some(cause.into()), ..self }
    }

    /// The same, with the item of the plan that failed.
    pub(super) fn of_item(self, item: &str) -> Self {
        Error { item: Some(item.to_owned()), ..self }
    }

    /// Whether it was refused before anything was changed.
    pub fn is_refusal(&self) -> bool {
        self.refused
    }

    /// The item of the plan that failed; the rest can be applied without it.
    pub fn item(&self) -> Option<&str> {
        self.item.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}
