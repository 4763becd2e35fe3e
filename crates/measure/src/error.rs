//! Why a measurement could not be made.

use std::fmt;

use report::PlanError;

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The plan cannot be meant.
    Misuse,
    /// The other end, or this machine, will not or cannot do it.
    Refused,
    /// The other end or the path to it is gone.
    Gone,
}

/// Why, in one line: the thing, the cause and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// For code.
    pub kind: Kind,
    text: String,
}

impl Error {
    pub(crate) fn misuse(text: impl Into<String>) -> Error {
        Error { kind: Kind::Misuse, text: text.into() }
    }

    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error { kind: Kind::Refused, text: text.into() }
    }

    /// The other end could not be reached.
    pub fn unreached(text: impl Into<String>) -> Error {
        Error::gone(text)
    }

    pub(crate) fn gone(text: impl Into<String>) -> Error {
        Error { kind: Kind::Gone, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Invalid(text) => Error::misuse(text),
            PlanError::TooLarge(text) => Error::refused(text),
        }
    }
}

impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        let kind = match error.kind() {
            fabric::Kind::Misuse => Kind::Misuse,
            fabric::Kind::Gone => Kind::Gone,
            _ => Kind::Refused,
        };
        Error { kind, text: error.to_string() }
    }
}

impl From<fabric::Failure> for Error {
    fn from(failure: fabric::Failure) -> Self {
        Error::gone(format!("an operation failed: {failure}"))
    }
}
