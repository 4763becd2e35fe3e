//! What went wrong while a machine was changed, or before.

use std::fmt;
use std::io;

/// Why something could not be done. The text names the thing, the cause and the fix.
#[derive(Debug)]
pub struct Error {
    refused: bool,
    text: String,
    item: Option<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// The machine did not allow it.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Error { refused: false, text: text.into(), item: None, cause: None }
    }

    /// It was not tried: nothing was changed.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Error { refused: true, ..Error::failed(text) }
    }

    /// A call that failed on something.
    pub(super) fn call(what: &str, on: &str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Error::failed(format!("{what} {on}: {error}")).caused_by(error)
    }

    /// The same, with what caused it.
    pub(super) fn caused_by(
        self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error { cause: Some(cause.into()), ..self }
    }

    /// The same, with the item of the plan that is to blame.
    pub(super) fn of_item(self, item: &str) -> Self {
        Error { item: Some(item.to_owned()), ..self }
    }

    /// Whether nothing was changed.
    pub fn is_refusal(&self) -> bool {
        self.refused
    }

    /// The item of the plan without which the rest could be done.
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
