//! Why a session ended.

use std::fmt;
use std::io;

/// What ended a session, for people and for code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    kind: LostKind,
    why: String,
}

/// What ended a session, for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostKind {
    /// The peer closed it, or its machine did.
    Closed,
    /// The peer's host was silent for too long.
    TimedOut,
    /// The peer sent what is no message, or somebody changed it on its way.
    ProtocolError,
    /// The peer does not read what we send, or a message is too long to be sent.
    Full,
}

impl Lost {
    pub(super) fn new(kind: LostKind, why: impl fmt::Display) -> Self {
        Lost { kind, why: why.to_string() }
    }

    /// What the socket said.
    pub(super) fn socket(error: &io::Error) -> Self {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
        match error.kind() {
            TimedOut | HostUnreachable | NetworkUnreachable => {
                Lost::new(LostKind::TimedOut, format!("the peer's host does not answer: {error}"))
            }
            _ => Lost::new(LostKind::Closed, format!("the connection broke: {error}")),
        }
    }

    /// What happened, for code.
    pub fn kind(&self) -> LostKind {
        self.kind
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Lost {}
