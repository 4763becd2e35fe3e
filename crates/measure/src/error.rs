//! Errors of measurements.

use std::fmt;

use report::PlanError;

/// The kind of an error, for callers that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The plan is invalid.
    Misuse,
    /// The other end, or this machine, refuses it or does not support it.
    Refused,
    /// The other end or the path to it is gone.
    Gone,
}

/// An error with a message of one line: the thing, the cause and the fix.
#[derive(Debug)]
pub struct Error {
    /// Its kind.
    pub kind: ErrorKind,
    text: String,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error { kind, text: text.into(), cause: None }
    }

    pub(crate) fn misuse(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Misuse, text)
    }

    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, text)
    }

    /// The other end could not be reached.
    pub fn unreached(text: impl Into<String>) -> Error {
        Error::gone(text)
    }

    pub(crate) fn gone(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Gone, text)
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

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        let kind = match &error {
            PlanError::Invalid(_) => ErrorKind::Misuse,
            PlanError::TooLarge(_) => ErrorKind::Refused,
        };
        Error { kind, text: error.to_string(), cause: Some(error.into()) }
    }
}

impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        let kind = match error.kind() {
            fabric::ErrorKind::Misuse => ErrorKind::Misuse,
            fabric::ErrorKind::Gone => ErrorKind::Gone,
            _ => ErrorKind::Refused,
        };
        Error { kind, text: error.to_string(), cause: Some(error.into()) }
    }
}

impl From<fabric::Failure> for Error {
    fn from(failure: fabric::Failure) -> Self {
        let text = format!("an operation failed: {failure}");
        Error { kind: ErrorKind::Gone, text, cause: Some(failure.into()) }
    }
}
