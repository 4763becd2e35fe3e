//! Why something could not be had: for people, and a kind to act on.

use std::fmt;

/// What went wrong: with what, why, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    text: String,
}

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A condition does not hold; the version that is there, if there is one.
    Condition(Option<u64>),
    /// The store has no room.
    Full,
    /// The value is longer than the store, or our own memory, takes.
    TooLong,
    /// The store does not let us.
    Denied,
    /// This machine, the other, or what is between them cannot do it: RDMA that is asked for and not there.
    Unsupported,
    /// The caller asked for what cannot be meant.
    Misuse,
    /// A write may have happened or not: the store that could tell is gone. Look before writing again.
    Unknown,
    /// The time is up.
    Deadline,
    /// The store has as much to do, or as many clients, as it takes: ask again later.
    Overloaded,
    /// No store can be reached.
    Gone,
    /// All receive buffer is in use: drop values, or use a larger buffer. Or the store was asked more often in a
    /// second than it lets us.
    Busy,
    /// The bytes that came are not those that were kept.
    Damaged,
    /// The other end broke the protocol.
    ProtocolError,
    /// Something else that the text explains.
    Other,
}

impl Error {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Error { kind, text: text.into() }
    }

    /// This one, and what else went wrong.
    pub(crate) fn and(self, other: &Error) -> Self {
        Error { text: format!("{}; {}", self.text, other.text), ..self }
    }

    /// Whether calling again may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Gone | Kind::Deadline | Kind::Overloaded)
    }

    /// What a caller can act on.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// An error of the fabric, by its kind.
impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        let kind = match error.kind() {
            fabric::Kind::Denied => Kind::Denied,
            fabric::Kind::Unsupported => Kind::Unsupported,
            fabric::Kind::Misuse => Kind::Misuse,
            fabric::Kind::Gone => Kind::Gone,
            fabric::Kind::Full => Kind::Overloaded,
            _ => Kind::Other,
        };
        Error::new(kind, error.to_string())
    }
}
