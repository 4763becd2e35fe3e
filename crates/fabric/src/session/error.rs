//! Errors of sessions.

use std::fmt;
use std::io;

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionError {
    kind: SessionErrorKind,
    why: String,
}

/// The kind of reason why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionErrorKind {
    /// The connection was closed.
    Closed,
    /// The peer's host does not answer.
    TimedOut,
    /// The peer sent an invalid message, or it was changed in transit.
    ProtocolError,
    /// The peer does not read, or a message is too long.
    Full,
}

impl SessionError {
    pub(super) fn new(kind: SessionErrorKind, why: impl fmt::Display) -> Self {
        SessionError { kind, why: why.to_string() }
    }

    /// From an error of the socket.
    pub(super) fn socket(error: &io::Error) -> Self {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
        match error.kind() {
            TimedOut | HostUnreachable | NetworkUnreachable => SessionError::new(
                SessionErrorKind::TimedOut,
                format!("the peer's host does not answer: {error}"),
            ),
            _ => SessionError::new(SessionErrorKind::Closed, format!("connection lost: {error}")),
        }
    }

    /// The kind.
    pub fn kind(&self) -> SessionErrorKind {
        self.kind
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for SessionError {}
