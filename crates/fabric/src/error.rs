//! Errors of set-up calls: which call, on what, why, and what to try.

use std::fmt;

/// An error with a message for people, and a kind for code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    call: String,
    why: String,
    fix: String,
    refusal: Option<&'static str>,
}

/// The kind of an error, for callers that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A limit is reached: request less, or raise it.
    Full,
    /// The peer or the device is gone.
    Gone,
    /// A right is missing.
    Denied,
    /// This machine, device or library cannot do it.
    Unsupported,
    /// The call is invalid: an error in the calling program.
    Misuse,
    /// The operating system returned an error.
    System,
}

impl Error {
    /// An error of a call, with its cause and what to try; also for crates that build on this one.
    pub fn new(
        kind: ErrorKind,
        call: impl Into<String>,
        why: impl fmt::Display,
        fix: impl Into<String>,
    ) -> Self {
        Error { kind, call: call.into(), why: why.to_string(), fix: fix.into(), refusal: None }
    }

    /// With the peer's reason.
    pub(crate) fn with_refusal(mut self, refusal: Option<&'static str>) -> Self {
        self.refusal = refusal;
        self
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// If the peer refused this end: the name of its [`Reason`](crate::session::Reason).
    pub fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} — {}", self.call, self.why, self.fix)
    }
}

impl std::error::Error for Error {}
