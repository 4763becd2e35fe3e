//! What can go wrong when something is set up: which call, on what, why, and what to try.

use std::fmt;

/// An error for the person who reads it at night, with a kind for the code that acts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    call: String,
    why: String,
    fix: String,
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A limit is reached: ask for less, or raise it.
    Full,
    /// The peer or the device is not there any more.
    Gone,
    /// A right is missing.
    Denied,
    /// This machine, device or library cannot do it.
    Unsupported,
    /// The caller asked for something that cannot be meant.
    Misuse,
    /// The operating system failed in a way of its own.
    System,
}

impl Error {
    /// One that says which call failed, why, and what to try; also for crates that build on this one.
    pub fn new(
        kind: Kind,
        call: impl Into<String>,
        why: impl fmt::Display,
        fix: impl Into<String>,
    ) -> Self {
        Error { kind, call: call.into(), why: why.to_string(), fix: fix.into() }
    }

    /// What to do about it, for code.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} — {}", self.call, self.why, self.fix)
    }
}

impl std::error::Error for Error {}
